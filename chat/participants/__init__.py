"""Participants of conversations, the groups of teams, and the dialog in which a conversation is shared."""
