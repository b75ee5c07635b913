"""Signing in at tool servers (OAuth 2.1, as the MCP specification uses it): each person with an account of their own."""
