"""Servers, browsers, databases and people for tests; tests/README.md says which fixture gives what."""
