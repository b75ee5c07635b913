"""Marks texts of the pure packages for translation, without Django."""

from __future__ import annotations


def gettext_noop(message: str) -> str:
    """Returns the message itself: `makemessages` finds it by this name, and the code that shows it translates it."""
    return message
