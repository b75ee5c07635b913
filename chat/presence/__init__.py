"""Presence: the people who have a conversation open, are idle, or are writing."""
