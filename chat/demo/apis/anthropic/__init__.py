"""The demo's Anthropic Messages API."""
