"""Tributary: a room for a team and its language models."""
