"""An exception for the log: where it happened in full, and of its text only what gives nothing away.

The text of an exception may quote what was being worked on. PostgreSQL repeats the whole row that it
refused, a template the context that it could not read, and a decoder the words that it stumbled over:
prompts, answers and keys. So a text is shown where its kind is known to hold none.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Iterator

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError
from django.db import DatabaseError, DataError, InterfaceError

MAX_TEXT = 500
WITHHELD = "(text withheld)"

# What the system, the interpreter and we ourselves say: names of files, types and members.
_TELLING = (
    OSError,
    ImportError,
    NameError,
    AttributeError,
    TypeError,
    RecursionError,
    MemoryError,
    asyncio.CancelledError,
    CommandError,
    ImproperlyConfigured,
)
_CAUSED = "\nThe above exception was the direct cause of the following exception:\n\n"
_DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"


def describe(error: BaseException, *, with_texts: bool = False) -> str:
    """The traceback, with those of its causes before it. ``with_texts`` shows every text."""
    return "".join(_lines(error, with_texts, set())).rstrip("\n")


def text_of(error: BaseException) -> str:
    """One line that can be shown, or `WITHHELD`."""
    if isinstance(error, DataError):
        return WITHHELD
    if isinstance(error, DatabaseError | InterfaceError):
        # Behind the first line PostgreSQL tells the values that it speaks of.
        return _cut(str(error).partition("\n")[0])
    if isinstance(error, _TELLING):
        return _cut(str(error))
    return WITHHELD if str(error) else ""


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"


def _lines(error: BaseException, with_texts: bool, seen: set[int]) -> Iterator[str]:
    seen.add(id(error))
    earlier, words = error.__cause__, _CAUSED
    if earlier is None and not error.__suppress_context__:
        earlier, words = error.__context__, _DURING
    if earlier is not None and id(earlier) not in seen:
        yield from _lines(earlier, with_texts, seen)
        yield words
    if error.__traceback__ is not None:
        yield "Traceback (most recent call last):\n"
        yield from traceback.format_tb(error.__traceback__)
    text = str(error) if with_texts else text_of(error)
    name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    yield f"{name}: {text}\n" if text else f"{name}\n"
    if isinstance(error, BaseExceptionGroup):
        for number, inner in enumerate(error.exceptions, start=1):
            if id(inner) not in seen:
                yield f"\nOne of them, number {number}:\n\n"
                yield from _lines(inner, with_texts, seen)
