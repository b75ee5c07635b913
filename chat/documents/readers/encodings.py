"""Text of bytes whose encoding is written nowhere, or maybe wrongly."""

from __future__ import annotations

import codecs

from chat.core.isolation.child import Refused
from chat.documents.readers import refusals

# Signatures, the longer ones first: one begins with another.
_SIGNATURES = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# The encodings that archives, PDF, HTML (https://encoding.spec.whatwg.org/) and mail use. Python loads each from a file at its
# first use.
_DECLARED = (
    *("ascii", "utf-7", "utf-16-le", "utf-16-be", "latin-1", "cp437", "cp1252", "koi8-r", "koi8-u"),
    *(f"iso8859-{number}" for number in (2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 15, 16)),
    *(f"cp125{number}" for number in (0, 1, 3, 4, 5, 6, 7, 8)),
    *("cp866", "mac-roman", "gb2312", "gbk", "gb18030", "big5", "euc-jp", "shift-jis", "cp932"),
    *("iso2022-jp", "euc-kr", "cp949", "unicode-escape", "punycode", "idna"),
)
# A text has no other control characters than these.
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\x1b\b"))


def prime() -> None:
    for name in (*_DECLARED, *(each for _, each in _SIGNATURES)):
        codecs.lookup(name)


def decode(body: bytes, *, declared: str = "") -> str:
    """The text: by its signature, as declared, as UTF-8 or, what most others are, as Windows-1252. Raises ``Refused``
    for anything that has no text in these."""
    for signature, encoding in _SIGNATURES:
        if body.startswith(signature):
            return _strictly(body, encoding)
    if body.translate(None, _CONTROLS) != body:
        raise Refused(refusals.NOT_TEXT)
    if declared:
        try:
            return body.decode(declared)
        except (LookupError, ValueError):
            # Declared wrongly, or by an unknown name.
            pass
    try:
        return body.decode()
    except UnicodeDecodeError:
        return _strictly(body, "cp1252")


def _strictly(body: bytes, encoding: str) -> str:
    try:
        return body.decode(encoding)
    except UnicodeDecodeError:
        raise Refused(refusals.UNKNOWN_ENCODING) from None
