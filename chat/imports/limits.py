"""Limits of a file to import. The reader's child receives those that are settings with its
order."""

from __future__ import annotations

from msgspec import Struct

MEGABYTE = 1024 * 1024
# The largest exports that people report have about 1 GB with their pictures.
ARCHIVE_BYTES = 2048 * MEGABYTE
# One JSON file. ChatGPT's were up to 300 MB before it began to split them.
DOCUMENT_BYTES = 512 * MEGABYTE
# Everything unpacked.
TOTAL_BYTES = 8192 * MEGABYTE
MOST_MEMBERS = 50_000
# The archive's directory is read as a whole; an entry has about 100 bytes.
DIRECTORY_BYTES = 16 * MEGABYTE
# JSON of conversations shrinks to a fifth or a twentieth, a bomb to a thousandth. Small members
# have no limit.
MOST_RATIO = 150
RATIO_FROM_BYTES = MEGABYTE
# A message that is nested in the one before it adds two levels.
MOST_DEPTH = 5000
MOST_CONVERSATIONS = 50_000
# Texts, calls and files of one conversation. The number of messages is limited as well, but each
# has many parts.
MOST_PARTS = 200_000


class Limits(Struct, frozen=True, kw_only=True):
    """The limits that an administrator can change, with the defaults of the settings."""

    # The JSON of one conversation, with the files in it.
    conversation_bytes: int = 192 * MEGABYTE
    picture_bytes: int = 5 * MEGABYTE
    picture_pixels: int = 50_000_000
    # An attached file that is no picture.
    file_bytes: int = 25 * MEGABYTE
    run_bytes: int = 64 * MEGABYTE
    mockup_files: int = 200
    mockup_file_bytes: int = 4 * MEGABYTE


_limits = Limits()


def use_limits(limits: Limits) -> None:
    global _limits
    _limits = limits


def current() -> Limits:
    return _limits
