"""Sentences about calls that were sent and have no result: those of other requests advise to try again."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext_noop

from chat.events import ErrorInfo

# Stored in English for people and the model; pages translate them.
CLOSED = gettext_noop("The server closed the connection before it answered.")
LOST = gettext_noop("The connection to the server was lost before the result arrived.")
SILENT = gettext_noop("The server didn’t answer in time.")

_BY_CODE: Mapping[str, str] = {
    "closed_early": CLOSED,
    "cut": LOST,
    "head_timeout": SILENT,
    "idle_timeout": SILENT,
    "write_timeout": SILENT,
}


def sentence_of(info: ErrorInfo) -> str:
    return _BY_CODE.get(info.code or "", info.message)
