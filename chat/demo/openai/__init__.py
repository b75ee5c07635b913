"""The demo's Chat Completions API."""
