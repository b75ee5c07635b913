"""Reasons for which administrators read conversations of others, and what the people are told of it."""
