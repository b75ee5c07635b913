"""Unread conversations of each person, the same on all of their devices."""
