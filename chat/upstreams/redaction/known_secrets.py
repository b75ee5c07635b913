"""Removes an upstream's credential from everything that the upstream sends."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec

from chat.core.key_formats import KEY
from chat.dialects.base import Dialect
from chat.events import ErrorInfo, Json

MARK = "[redacted]"
_MARK_BYTES = MARK.encode("ascii")

# A shorter secret is a placeholder such as "none"; removing it would damage answers.
SHORTEST_SECRET = 8
# Deeper than any useful error body, and far from Python's own limit.
MAX_DEPTH = 64

# A shorter value of an option is a word such as "on", not a secret.
SHORTEST_OPTION = 4
# Members whose name says that they are credentials, and those whose members all are.
_CREDENTIAL = re.compile(
    r"authoriz|authentic|token|secret|passw|credential|cookie|bearer|api[-_]?key|^key$|^x-"
)
_HOLDERS = frozenset(("headers", "http_headers", "env", "extra_headers"))
_PUBLIC_HEADERS = frozenset(("accept", "accept-language", "content-type", "user-agent"))
# Members that only contain names. A value there that looks like a token is none, and removing it
# would hide which server or tool an answer is about.
_PUBLIC_MEMBERS = frozenset(
    ("type", "id", "name", "label", "description", "model", "server_label", "server_url", "url")
)
_LOOKS_RANDOM = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9._~+/=-]{16,}")
_BEARER = re.compile(r"(?i)\b(bearer|basic)(\s+|\s*:\s*)[A-Za-z0-9._~+/=-]{6,}")
# "sk-ab****yz": servers mask keys in their own ways, and the remaining characters still reveal
# something. The pattern matches only at the start of a word; tried at every character it would be
# quadratic.
_MASKED = re.compile(r"(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{2,}\*{3,}[A-Za-z0-9_-]*")


class Redactor:
    """Works on one stream (``chunk``, then ``flush``) and on any number of texts and errors."""

    def __init__(self, secrets: Iterable[str]) -> None:
        known = [secret for secret in secrets if secret.strip()]
        long = [secret for secret in known if len(secret) >= SHORTEST_SECRET]
        spellings = sorted({form for secret in long for form in _spellings(secret)}, key=len)
        self._needles = [form.encode("utf-8") for form in reversed(spellings)]
        # In a chunk, only the positions where a secret could begin are checked, each by one hash.
        self._first_byte = _one_of({needle[:1] for needle in self._needles})
        self._prefixes = {needle[:end] for needle in self._needles for end in range(1, len(needle))}
        self._longest = max(map(len, self._needles), default=0)
        self._needle = _any_of(self._needles)
        self._texts = _text_patterns(known, long, spellings)
        self._held = b""

    def chunk(self, data: bytes) -> bytes:
        """``data`` without the secret, less an end that may be the beginning of one."""
        if self._needle is None:
            return data
        data = self._held + data
        pieces: list[bytes] = []
        start = 0
        for match in self._needle.finditer(data):
            if (
                len(data) - match.start() < self._longest
                and data[match.start() :] in self._prefixes
            ):
                break  # This is the beginning of a longer secret: wait for the rest of it.
            pieces += (data[start : match.start()], _MARK_BYTES)
            start = match.end()
        held_from = self._beginning(data, start)
        self._held = data[held_from:]
        pieces.append(data[start:held_from])
        return b"".join(pieces)

    def flush(self) -> bytes:
        """The rest, once nothing more comes."""
        held, self._held = self._held, b""
        return self._needle.sub(_MARK_BYTES, held) if self._needle else held

    def text(self, text: str) -> str:
        """Stricter than ``chunk``: also removes beginnings of the secret, masked keys, and keys of
        well-known providers."""
        for pattern in self._texts:
            text = pattern.sub(MARK, text)
        text = _BEARER.sub(rf"\1\2{MARK}", text)
        return _MASKED.sub(MARK, KEY.sub(MARK, text))

    def error(self, info: ErrorInfo) -> ErrorInfo:
        return msgspec.structs.replace(
            info,
            message=self.text(info.message),
            code=self._optional(info.code),
            param=self._optional(info.param),
            upstream=self._json(info.upstream, MAX_DEPTH),
        )

    def _beginning(self, data: bytes, start: int) -> int:
        """The position of the earliest end of ``data`` that is the beginning of a secret."""
        for match in self._first_byte.finditer(data, max(start, len(data) - self._longest + 1)):
            if data[match.start() :] in self._prefixes:
                return match.start()
        return len(data)

    def _optional(self, text: str | None) -> str | None:
        return None if text is None else self.text(text)

    def _json(self, value: Json, depth: int) -> Json:
        if isinstance(value, str):
            return self.text(value)
        if not isinstance(value, dict | list):
            return value
        if depth == 0:
            return MARK
        if isinstance(value, list):
            return [self._json(member, depth - 1) for member in value]
        return {self.text(str(key)): self._json(member, depth - 1) for key, member in value.items()}


# --- what is secret -----------------------------------------------------------------------


def credentials_of(dialect: Dialect, key: str, options: Mapping[str, object]) -> list[str]:
    """The key, and every secret text in the options that the dialect declares secret."""
    secret = [parameter.name for parameter in dialect.options if parameter.is_secret]
    found = [
        text
        for name in secret
        if name in options
        for text in secret_texts(options[name], name, is_secret=isinstance(options[name], str))
    ]
    return list(dict.fromkeys([key, *found]))


def secret_texts(value: object, member: str = "", *, is_secret: bool = False) -> Iterator[str]:
    """The secret parts of an option's value: of ``{"Authorization": "Bearer abc…"}`` the header's
    value and the token in it, of an address its query or user part. Names of servers and tools
    beside them stay readable in an answer about them."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            inner_name = str(name).lower()
            is_inner_secret = is_secret or _CREDENTIAL.search(inner_name) is not None
            if member.lower() in _HOLDERS:
                is_inner_secret = inner_name not in _PUBLIC_HEADERS
            yield from secret_texts(inner, inner_name, is_secret=is_inner_secret)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from secret_texts(inner, member, is_secret=is_secret)
    elif isinstance(value, str | int) and not isinstance(value, bool):
        hidden = _hidden_in(str(value), member, is_secret=is_secret)
        yield from (text for text in hidden if len(text) >= SHORTEST_OPTION)


def _hidden_in(text: str, member: str, *, is_secret: bool) -> Iterator[str]:
    yield from _hidden_in_address(text)
    if is_secret:
        yield from _hidden_in_text(text)
    elif member not in _PUBLIC_MEMBERS and _LOOKS_RANDOM.fullmatch(text):
        yield text


def _hidden_in_text(text: str) -> Iterator[str]:
    """Each line; of "Name: value" the value; and each word that is long enough to be a token."""
    for line in text.splitlines():
        name, colon, value = line.partition(": ")
        whole = value if colon and " " not in name else line
        yield whole.strip()
        yield from (word for word in whole.split() if len(word) >= SHORTEST_SECRET)


def _hidden_in_address(text: str) -> Iterator[str]:
    try:
        parts = urlsplit(text)
        yield from (value for _, value in parse_qsl(parts.query))
        yield parts.password or ""
    except ValueError:
        return


def _spellings(secret: str) -> set[str]:
    """The secret as it may be written in JSON, with both ways to write a slash, and in a URL."""
    in_json = json.dumps(secret)[1:-1]
    return {secret, in_json, in_json.replace("/", "\\/"), quote(secret, safe="")}


def _any_of(needles: list[bytes]) -> re.Pattern[bytes] | None:
    """Longest first, so that a secret that begins with another one is removed as a whole."""
    return re.compile(b"|".join(map(re.escape, needles))) if needles else None


def _one_of(single_bytes: set[bytes]) -> re.Pattern[bytes]:
    return re.compile(
        b"[" + b"".join(map(re.escape, single_bytes)) + b"]" if single_bytes else b"(?!)"
    )


def _text_patterns(
    known: list[str], long: list[str], spellings: list[str]
) -> list[re.Pattern[str]]:
    patterns = [re.compile(re.escape(form)) for form in reversed(spellings)]
    for secret in long:
        patterns += [
            re.compile(re.escape(secret[:SHORTEST_SECRET]) + r"[^\s\"'<>\\,;)\]}]*"),
            re.compile(re.escape(secret[:3]) + r"[\w-]{0,5}(?:\*+|\u2026|\.{2,})[\w-]*"),
        ]
    short = [secret for secret in known if len(secret) < SHORTEST_SECRET]
    return patterns + [re.compile(rf"(?<!\w){re.escape(secret)}(?!\w)") for secret in short]
