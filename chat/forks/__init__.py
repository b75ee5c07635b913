"""Forks: copies of a path of a conversation, with which their owner goes on alone."""
