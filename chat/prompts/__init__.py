"""Prompts: a library of texts with variables, which "/" in the composer inserts."""
