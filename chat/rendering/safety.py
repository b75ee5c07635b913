"""Safe display of untrusted text and addresses: hidden characters made visible, links checked."""

import re
from urllib.parse import quote, unquote

import idna

_SAFE_LINK = re.compile(r"(?:https?://[^/\\]|mailto:)", re.IGNORECASE)
# Characters at which browsers end the host part of an address.
_AUTHORITY = re.compile(r"https?:[/\\]+([^/\\?#]*)", re.IGNORECASE)
_PORT = re.compile(r":\d*$")
_LEFT_OUT = re.compile("[\t\n\r]")
_AROUND = "".join(map(chr, range(0x21)))
# Punctuation that browsers keep in host names.
_KEPT = "!$&'()+,;="
# The maximum length of a host name.
_LONGEST = 1024


def is_safe_link(url: str) -> bool:
    """Returns whether the address may be a link: absolute web and mail addresses only."""
    return _SAFE_LINK.match(url) is not None


def host_of(url: str) -> str:
    """The host that a browser contacts for this address; empty if there is none.

    By its rules and not by those of Python, which differ: for a browser a backslash ends the host,
    tabs are not there, and letters of other scripts have a form in ASCII. That form is shown, for
    the letters themselves may look like those of somebody else's name.
    """
    match = _AUTHORITY.match(_LEFT_OUT.sub("", url.strip(_AROUND)))
    if match is None:
        return ""
    name = _PORT.sub("", match[1].rpartition("@")[2])
    return name.lower() if name.startswith("[") else _in_ascii(unquote(name)[:_LONGEST])


def with_host(shown: str, url: str) -> str:
    """The address as text, with its true host beside it if that is not obvious."""
    host = host_of(url)
    if not shown:
        return host
    return shown if host in shown.casefold() else f"{shown} ({host})"


def _in_ascii(name: str) -> str:
    if name.isascii():
        return quote(name.lower(), safe=_KEPT)
    try:
        labels = idna.uts46_remap(name, std3_rules=False).split(".")
    except (idna.IDNAError, UnicodeError):
        return ""
    return quote(".".join(map(_label, labels)), safe=_KEPT)


def _label(label: str) -> str:
    # The strict rules for registered names don't apply: browsers accept others as well.
    return label if label.isascii() else f"xn--{label.encode('punycode').decode()}"


# The twelve bidirectional controls, zero-width and joining characters, the byte order mark and
# the tag block: in code and names they can make one thing look like another (Trojan Source).
HIDDEN = re.compile("[\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_NEWLINES = re.compile("\r\n?")


def _token(match: re.Match[str]) -> str:
    return f"[U+{ord(match.group()):04X}]"


def reveal(text: str) -> str:
    """Shows invisible and direction characters as ``[U+202E]``, for code, names and titles."""
    return HIDDEN.sub(_token, text)


def reveal_direction(text: str) -> str:
    """Shows direction controls only, for link labels, in which joined emoji are legitimate."""
    return _BIDI.sub(_token, text)


def storable(text: str) -> str:
    """Replaces lone surrogates and NUL by U+FFFD, so that the text can be encoded."""
    return _UNSTORABLE.sub("\ufffd", text)


def one_newline(text: str) -> str:
    return _NEWLINES.sub("\n", text) if "\r" in text else text
