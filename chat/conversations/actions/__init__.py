"""Changes of conversations and messages."""
