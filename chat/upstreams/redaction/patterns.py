"""Removes everything that looks like a secret (keys, tokens, encrypted reasoning), and files.

For recordings and for the details of a run, which may contain credentials that are not known here.
"""

import re
from dataclasses import dataclass

from chat.core import key_formats
from chat.core.key_formats import WORD_START as _START
from chat.upstreams.redaction.known_secrets import MARK

# A longer base64 text is a file, and nothing to read.
LONGEST_BASE64 = 1024

_ENCRYPTED_MEMBERS = r"signature|thought_?signature|encrypted_\w+|reasoning_opaque"
# `token` alone is no key: in log probabilities it is a piece of text.
_KEY_MEMBERS = (
    r"(?:[\w-]+[_-])?(?:api[_-]?key|secret|secret[_-]?key|private[_-]?key|password|passwd|cookie)|"
    r"(?:proxy-)?authorization|(?:access|refresh|auth|session|id|security|bearer|(?:fallback[_-]?)?credit)[_-]?token|"
    r"x-[\w-]*token|subscription-key"
)
_SETTINGS = (
    r"(?i:api[_-]?key|secret[_-]?(?:access[_-]?)?key|access[_-]?token|auth[_-]?token|password)"
)
_FILE_MEMBERS = "b64_json|partial_image_b64"
# Inside a JSON string.
_STRING = r'(?:[^"\\]|\\.)'
# JSON may itself be in a string (arguments of calls), and that in another one (results of tools).
# Each level writes more backslashes before a quote, as many as before the member's name in `q`. A
# backslash of the text is `_ESCAPED` there; a quote behind an odd number of those ends nothing.
_ESCAPED = r"(?P=q)\\"
_NESTED_STRING = rf'(?:[^"\\]|\\++(?!")|(?:{_ESCAPED}{_ESCAPED})*{_ESCAPED}(?P=q)")'
_MEMBERS = rf"(?i:{_ENCRYPTED_MEMBERS}|{_KEY_MEMBERS}|{_FILE_MEMBERS})"
_BASE64 = rf"(?:[A-Za-z0-9+/_=-]|\\/){{{LONGEST_BASE64},}}+"
_PRIVATE_KEY = "[A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?"
_VALUE = r"[A-Za-z0-9._~+/=-]"
# Matches what no ordinary word has: a digit, or a small letter before a capital one.
_IS_NO_WORD = rf"(?={_VALUE}{{0,80}}?(?:[0-9]|[a-z][A-Z]))"

# The encrypted reasoning of Anthropic and OpenRouter is in a member that has other uses elsewhere.
_ENCRYPTED_KINDS = re.compile(r'"type"\s*:\s*"(?:redacted_thinking|reasoning\.encrypted)"')
_ENCRYPTED_DATA = re.compile(rf'("data"\s*:\s*"){_STRING}++(?:"|\\?\Z)', re.DOTALL)
# Pictures and sounds: no text is this long without a space.
_FILE = re.compile(rf'((\\?")(?:data|delta)\2\s*:\s*\2){_BASE64}(?=\\?"|\Z)')


@dataclass(frozen=True, slots=True)
class _Rule:
    """``words``: the pattern is skipped if none of these occurs in the text in small letters."""

    words: tuple[str, ...]
    pattern: re.Pattern[str]
    kept: str = r"\1"
    end: str = ""


_MEMBER_WORDS: tuple[str, ...] = (
    "signature",
    "encrypted_",
    "opaque",
    "key",
    "secret",
    "passw",
    "cookie",
)
_MEMBER_WORDS += ("authorization", "token", "b64")
_SETTING_WORDS = ("key", "token", "password")
# The repetition is possessive, so that a long value is not kept for backtracking.
_RULES = (
    # The text may be cut within an escape, and the string around it may end before this one.
    _Rule(
        _MEMBER_WORDS,
        re.compile(
            rf'((?<!\\)(?P<q>\\{{0,15}})"{_MEMBERS}(?P=q)"\s*:\s*(?P=q)"){_NESTED_STRING}++'
            rf'(?:(?:{_ESCAPED}{_ESCAPED})*(?P<end>(?P=q)")|(?=\\*")|\Z)'
        ),
        end=r"\g<end>",
    ),
    _Rule(
        ("base64,",),
        re.compile(rf"(data:[\w.+-]++\\?/[\w.+-]++(?:;[\w.+-]++=[\w.+-]++)*+;base64,){_BASE64}"),
    ),
    _Rule(
        ("bearer",),
        re.compile(rf"{_START}((?i:bearer)\s+)(?:{_IS_NO_WORD}{_VALUE}{{12,}}|[A-Za-z]{{16,}})"),
    ),
    _Rule(("basic",), re.compile(rf"{_START}((?i:basic)\s+){_IS_NO_WORD}{_VALUE}{{12,}}")),
    # A header or a setting as people write one: `x-api-key: …`, `API_KEY=…`.
    _Rule(
        _SETTING_WORDS,
        re.compile(rf'({_SETTINGS}(\\?")\s?:\s?)-?[0-9][0-9.eE+-]{{6,}}'),
        kept=r"\1\2",
        end=r"\2",
    ),
    _Rule(
        _SETTING_WORDS,
        re.compile(
            rf"({_SETTINGS}(?:\\?[\"'])?\s?[:=]\s?(?:\\?[\"'])?){_IS_NO_WORD}{_VALUE}{{8,}}"
        ),
    ),
    # The parts of an address that give access. `&` may be written as in JSON or HTML.
    _Rule(
        ("key=", "token=", "sig=", "signature=", "secret=", "password=", "pwd=", "credential="),
        re.compile(
            r"((?:[?&;]|\\u0026)(?i:(?:[\w-]{0,40}[_-])?(?:api_?key|key|token|sig|signature|secret|"
            r"password|pwd|credential))=)[^&\s\"'\\<>#;]{8,}"
        ),
    ),
    _Rule(
        ("://",),
        re.compile(
            r"(\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"'\\<>]{0,200}:)[^\s/@\"'\\<>]{1,200}(?=@)"
        ),
    ),
    _Rule(key_formats.BEGINNINGS, key_formats.KEY, kept=""),
    _Rule(
        ("private key",),
        re.compile(
            # The lines of a private key, and its headers if it is encrypted; without a quote,
            # escaped or not.
            rf"(-----BEGIN {_PRIVATE_KEY}-----)(?:[^-\"\\]|\\++(?!\")|-(?!----))++"
            rf"(?:-----END {_PRIVATE_KEY}-----)?"
        ),
    ),
)


def redact_patterns(text: str) -> str:
    """A frame, an event or a body with `MARK` in place of everything that looks like a secret or is a
    file."""
    if len(text) > LONGEST_BASE64:
        text = _FILE.sub(rf"\1{MARK}", text)
    if _ENCRYPTED_KINDS.search(text):
        text = _ENCRYPTED_DATA.sub(rf'\1{MARK}"', text)
    small = text.lower()
    for rule in _RULES:
        if any(word in small for word in rule.words):
            text = rule.pattern.sub(f"{rule.kept}{MARK}{rule.end}", text)
    return text
