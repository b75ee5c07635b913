"""Server-sent events: bytes to events and back. Pure; it imports nothing of the project."""
