"""Xerotier: Chat Completions with 54 vendor events."""
