"""Bytes to server-sent events and back. Pure; imports nothing of the project."""
