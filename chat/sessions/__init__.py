"""Where people are signed in: the list in their settings, and ending sessions."""
