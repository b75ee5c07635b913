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

# Exceptions whose text comes from the system, the interpreter or us and is safe to log: it contains
# names of files, types and attributes.
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
    """The traceback, preceded by those of its causes. ``with_texts`` shows the text of every
    exception."""
    return "".join(_lines(error, with_texts, set())).rstrip("\n")


def text_of(error: BaseException) -> str:
    """The text of an exception in one line if it is safe to log, otherwise `WITHHELD`."""
    if isinstance(error, DataError):
        return WITHHELD
    if isinstance(error, DatabaseError | InterfaceError):
        # After the first line, PostgreSQL quotes values.
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
                yield f"\nException {number} of the group:\n\n"
                yield from _lines(inner, with_texts, seen)


# Formatters for people and for collectors. They remove secrets, and text that people wrote.

SECRET = "[secret]"  # noqa: S105 - a placeholder

# Anyone who has one of these addresses can use it: an invitation, the setup, a password reset, or
# (for some minutes) a preview. They also occur as a parameter of another address, with slashes as
# %2F.
_ADDRESS = re.compile(
    r"((?:/|%2F)(?:invite|preview|setup|accounts(?:/|%2F)password(?:/|%2F)reset(?:/|%2F)key)(?:/|%2F))"
    r"(?!done\b)[^/%\s?&#\"']+",
    re.IGNORECASE,
)
# Credentials anywhere in a line: our tokens and keys (by their prefix), values of headers, cookies
# and parameters, and the user part of a URL. `chat.core.key_formats` has the keys of well-known
# providers.
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
# Control characters, with which a requested address could forge another log line.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

# Our own loggers: their messages without arguments are literals.
OURS = ("chat", "project")
# Our messages have the form "noun.verb name=%s other=%d".
_FIELD = re.compile(r"(?:^|\s)(?P<name>[a-z_]+)=%[-#0-9.]*(?P<kind>[sdf])(?=\s|$)")


def without_secrets(text: str, known: Iterable[str] = ()) -> str:
    """``known`` are the secrets of this installation, longest first."""
    for secret in known:
        text = text.replace(secret, SECRET)
    text = _ADDRESS.sub(rf"\1{SECRET}", text)
    for pattern in _CREDENTIALS:
        text = pattern.sub(rf"\1{SECRET}", text)
    return KEY.sub(SECRET, text)


class _Formatter(logging.Formatter):
    """Removes secrets, for both formats. ``with_texts`` shows the texts of all exceptions."""

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
            # After the first line, they quote the task or a traceback with the text of the
            # exception.
            message = message.partition("\n")[0]
        return _CONTROL.sub(_escaped, message)

    def clean(self, text: str) -> str:
        return without_secrets(text, self._secrets)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


class LineFormatter(_Formatter):
    """Format for people: one line, followed by the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        record.message = self.message_of(record)
        record.asctime = self.formatTime(record, self.datefmt)
        parts = [self.formatMessage(record)]
        if record.exc_info:
            parts.append(self.formatException(record.exc_info))
        return self.clean("\n".join(part for part in parts if part))


class JsonFormatter(_Formatter):
    """Format for collectors: one JSON object per line, with the fields of our messages as members.

    ``event`` names what happened. For a message in another form (from libraries), ``event`` is
    "log" and ``message`` is its text.
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
    """The event and the field names of a message in our form; ``None`` for any other message."""
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
    """Counts every line and lets it pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        metrics.LOG_LINES.labels(record.levelname.lower()).inc()
        return True
