"""Folds the events of a run into the result that `chat.end` contains. Pure."""

from chat.result.artifacts import (
    media_name,
)
from chat.result.ending import (
    close_open,
    finish,
    fold,
    plain_text,
)
from chat.result.folding import (
    MOST_REPEATED_CHARACTERS,
    Fold,
    ending_in,
)

__all__ = [
    "MOST_REPEATED_CHARACTERS",
    "Fold",
    "close_open",
    "ending_in",
    "finish",
    "fold",
    "media_name",
    "plain_text",
]
