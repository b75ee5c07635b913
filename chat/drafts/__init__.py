"""Texts that people have not sent yet, which follow them to their other devices."""
