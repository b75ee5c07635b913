"""The demo's OpenAI Responses API."""
