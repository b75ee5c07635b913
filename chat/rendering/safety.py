"""Safe display of untrusted text and addresses: hidden characters made visible, links checked."""

import re
from urllib.parse import quote, unquote

import idna

_SAFE_LINK = re.compile(r"(?:https?://[^/\\]|mailto:)", re.IGNORECASE)
# What a browser takes for the end of the part that names the host.
_AUTHORITY = re.compile(r"https?:[/\\]+([^/\\?#]*)", re.IGNORECASE)
_PORT = re.compile(r":\d*$")
_LEFT_OUT = re.compile("[\t\n\r]")
_AROUND = "".join(map(chr, range(0x21)))
# The marks that a browser leaves in a name as they are.
_KEPT = "!$&'()+,;="
# Longer than any host's name; only what is at most this long is looked at.
_LONGEST = 1024


def is_safe_link(url: str) -> bool:
    """Only absolute web and mail addresses; anything else stays the text that it was."""
    return _SAFE_LINK.match(url) is not None


def host_of(url: str) -> str:
    """Where a browser goes that is given this address; empty where it goes nowhere.

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
    """What is shown of an address, with its true host where that cannot be read in it."""
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
    # Not by the strict rules for names that may be registered: browsers go to others as well.
    return label if label.isascii() else f"xn--{label.encode('punycode').decode()}"


# Text made safe to look at: characters that hide or reorder others become readable tokens.

# The twelve bidirectional controls, zero-width and joining characters, the byte order mark and
# the tag block: in code and names they can make one thing look like another (Trojan Source).
_HIDDEN = re.compile("[\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_NEWLINES = re.compile("\r\n?")


def _token(match: re.Match[str]) -> str:
    return f"[U+{ord(match.group()):04X}]"


def reveal(text: str) -> str:
    """Every hidden character as ``[U+202E]``: for code, names and titles."""
    return _HIDDEN.sub(_token, text)


def reveal_direction(text: str) -> str:
    """Only the direction controls: for link labels, where joined emoji are legitimate."""
    return _BIDI.sub(_token, text)


def storable(text: str) -> str:
    """Text that every encoder accepts: a lone surrogate and a NUL become U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)


def one_newline(text: str) -> str:
    return _NEWLINES.sub("\n", text) if "\r" in text else text
