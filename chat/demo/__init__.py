"""The demo upstream: an LLM server without an LLM, for first messages and for tests."""
