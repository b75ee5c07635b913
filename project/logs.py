"""Formatting of log lines, for people or collectors, without secrets."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import re
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError
from django.db import DatabaseError, DataError, InterfaceError

from chat.core import metrics
from chat.core.key_formats import KEY

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


# Lines of the log, for people or for collectors, without secrets and without anybody's words.

SECRET = "[secret]"  # noqa: S105 - what stands in the place of one

# Whoever has one of these addresses may come in by it: an invitation, the setup, a new password;
# or see, for some minutes, what an answer made: a preview.
# Also as a parameter of another address, where slashes are written as %2F.
_ADDRESS = re.compile(
    r"((?:/|%2F)(?:invite|preview|setup|accounts(?:/|%2F)password(?:/|%2F)reset(?:/|%2F)key)(?:/|%2F))"
    r"(?!done\b)[^/%\s?&#\"']+",
    re.IGNORECASE,
)
# Credentials anywhere in a line: tokens of ours and keys by their beginning, credentials by their
# header, cookie or parameter, and the user part of an address. Keys of well-known providers are in
# `chat.core.key_formats`.
_CREDENTIALS = [
    re.compile(r"\b(trib_|sk-)[A-Za-z0-9_-]{8,}"),
    re.compile(r"\b((?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{6,}", re.IGNORECASE),
    re.compile(
        r"\b((?:authorization|(?:set-)?cookie|(?:x-)?api[-_]?key|(?:__Host-)?sessionid"
        r"|(?:__Host-)?csrftoken|password|passwd)[\"']?\s*[:=]\s*[\"']?)"
        r"(?!(?:bearer|basic)\s)[^\s\"',;&]+",
        re.IGNORECASE,
    ),
    re.compile(r"([?&](?:access_)?(?:token|key|secret)=)[^&\s\"']+", re.IGNORECASE),
    re.compile(r"(\b[a-z][a-z0-9+.-]{1,20}://)[^/\s@\"'<>]+(?=@)", re.IGNORECASE),
]
# A line is a line: what a stranger's address contains must not look like another one of ours.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

# Loggers whose messages are literals where they have no fields.
OURS = ("chat", "project")
# Our messages are "noun.verb name=%s other=%d".
_FIELD = re.compile(r"(?:^|\s)(?P<name>[a-z_]+)=%[-#0-9.]*(?P<kind>[sdf])(?=\s|$)")


def without_secrets(text: str, known: Iterable[str] = ()) -> str:
    """``known`` are secrets of this installation, longest first."""
    for secret in known:
        text = text.replace(secret, SECRET)
    text = _ADDRESS.sub(rf"\1{SECRET}", text)
    for pattern in _CREDENTIALS:
        text = pattern.sub(rf"\1{SECRET}", text)
    return KEY.sub(SECRET, text)


class _Formatter(logging.Formatter):
    """What both formats leave out. ``with_texts`` shows the texts of all exceptions."""

    def __init__(self, *, secrets: Iterable[str] = (), with_texts: bool = False, **kwargs: str):
        super().__init__(**kwargs)
        self._secrets = list(secrets)
        self._with_texts = with_texts

    def formatException(self, ei: object) -> str:
        error = ei[1] if isinstance(ei, tuple) else None
        return describe(error, with_texts=self._with_texts) if error is not None else ""

    def message_of(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        if record.name in ("asyncio", "twisted"):
            # Behind the first line they show the task, or a traceback, with the exception's own text.
            message = message.partition("\n")[0]
        return _CONTROL.sub(_escaped, message)

    def clean(self, text: str) -> str:
        return without_secrets(text, self._secrets)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


class LineFormatter(_Formatter):
    """For people: one line, and the traceback below it."""

    def format(self, record: logging.LogRecord) -> str:
        record.message = self.message_of(record)
        record.asctime = self.formatTime(record, self.datefmt)
        parts = [self.formatMessage(record)]
        if record.exc_info:
            parts.append(self.formatException(record.exc_info))
        return self.clean("\n".join(part for part in parts if part))


class JsonFormatter(_Formatter):
    """For collectors: one JSON object a line, with the fields of our messages as members.

    ``event`` names what happened. Of a message that is not in our form (other people's libraries)
    ``event`` is "log", and ``message`` holds its words.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _time_of(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            **self._told(record),
        }
        status = getattr(record, "status_code", None)
        if isinstance(status, int):
            line.setdefault("status", status)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        cleaned = {name: self._cleaned(value) for name, value in line.items()}
        return json.dumps(cleaned, ensure_ascii=False)

    def _told(self, record: logging.LogRecord) -> Mapping[str, object]:
        template = record.msg if isinstance(record.msg, str) else ""
        args = record.args if isinstance(record.args, tuple) else (record.args,)
        if record.name.partition(".")[0] in OURS and template and not record.args:
            return {"event": template}
        found = fields_of(template)
        if found is None or len(found[1]) != len(args):
            return {"event": "log", "message": self.message_of(record)}
        event, names = found
        return {"event": event, **{n: _value(v) for n, v in zip(names, args, strict=True)}}

    def _cleaned(self, value: object) -> object:
        return self.clean(value) if isinstance(value, str) else value


@functools.lru_cache(maxsize=1000)
def fields_of(template: str) -> tuple[str, list[str]] | None:
    """The event and the names of the fields of a message in our form; ``None`` of another one."""
    fields = list(_FIELD.finditer(template))
    if not fields or template.count("%") != len(fields):
        return None
    event = template[: fields[0].start()].strip()
    return (event, [field["name"] for field in fields]) if event else None


def _value(value: object) -> object:
    if isinstance(value, float):
        return round(value, 6)
    return value if isinstance(value, int | None) else str(value)


def _time_of(record: logging.LogRecord) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{whole}.{int(record.msecs):03d}Z"


class Counted(logging.Filter):
    """Lets every line through, and counts it."""

    def filter(self, record: logging.LogRecord) -> bool:
        metrics.LOG_LINES.labels(record.levelname.lower()).inc()
        return True
