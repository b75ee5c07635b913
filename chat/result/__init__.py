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
