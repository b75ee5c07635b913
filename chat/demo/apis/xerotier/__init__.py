"""The demo's Xerotier API."""
