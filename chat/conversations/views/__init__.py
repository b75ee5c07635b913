"""Pages and forms of conversations and their messages."""
