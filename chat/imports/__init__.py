"""Conversations that people bring from other products."""
