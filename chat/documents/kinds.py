"""Media types of files, recognized by their first bytes and their names. They decide how a document is read
(`DocumentKind.of_media_type`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from chat.core.pictures import read_picture
from chat.rendering.media import sound_of

# The beginning of a file, by which its kind is recognized.
HEAD_BYTES = 64 * 1024

_OFFICE = "application/vnd.openxmlformats-officedocument"
_WORD = f"{_OFFICE}.wordprocessingml.document"
_SLIDES = f"{_OFFICE}.presentationml.presentation"
_SHEETS = f"{_OFFICE}.spreadsheetml.sheet"
_BINARY_SHEETS = "application/vnd.ms-excel.sheet.binary.macroEnabled.12"
_OPEN_SHEETS = "application/vnd.oasis.opendocument.spreadsheet"
_UNKNOWN = "application/octet-stream"

_PDF, _ZIP, _OLE = b"%PDF-", b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# A PDF may have other bytes before its header (PDF 32000-1, annex H, note 13).
_PDF_HEADER_BYTES = 1024
_ZIPPED: Mapping[str, str] = {
    **dict.fromkeys((".docx", ".docm", ".dotx", ".dotm"), _WORD),
    **dict.fromkeys((".pptx", ".pptm", ".ppsx", ".ppsm", ".potx"), _SLIDES),
    **dict.fromkeys((".xlsx", ".xlsm", ".xltx", ".xltm"), _SHEETS),
    ".xlsb": _BINARY_SHEETS,
    ".ods": _OPEN_SHEETS,
}
# The kind of an archive with another suffix, by the names of its members.
_MEMBERS: Mapping[bytes, str] = {
    b"word/document.xml": _WORD,
    b"ppt/presentation.xml": _SLIDES,
    b"xl/workbook.xml": _SHEETS,
    b"xl/workbook.bin": _BINARY_SHEETS,
    _OPEN_SHEETS.encode(): _OPEN_SHEETS,
}
# Files of Office before 2007. Newer ones with a password have this container, too, and keep their suffix.
_OLD: Mapping[str, str] = {
    ".doc": "application/msword",
    ".dot": "application/msword",
    ".ppt": "application/vnd.ms-powerpoint",
    ".pps": "application/vnd.ms-powerpoint",
    ".xls": "application/vnd.ms-excel",
    ".xlt": "application/vnd.ms-excel",
    **_ZIPPED,
}
_TEXTS: Mapping[str, str] = {
    **dict.fromkeys((".html", ".htm", ".xhtml"), "text/html"),
    **dict.fromkeys((".eml", ".mht", ".mhtml"), "message/rfc822"),
    **dict.fromkeys((".md", ".markdown"), "text/markdown"),
    **dict.fromkeys((".yaml", ".yml"), "application/yaml"),
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".json": "application/json",
    ".xml": "application/xml",
    ".toml": "application/toml",
    ".sql": "application/sql",
    ".css": "text/css",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    **dict.fromkeys(
        (
            *(".txt", ".text", ".log", ".rst", ".adoc", ".tex", ".bib", ".org", ".ini", ".cfg"),
            *(".conf", ".env", ".properties", ".jsonl", ".ndjson", ".ipynb", ".srt", ".vtt"),
            *(".ics", ".vcf", ".svg", ".diff", ".patch", ".py", ".pyi", ".ts", ".tsx", ".jsx"),
            *(".cjs", ".vue", ".scss", ".less", ".c", ".h", ".cc", ".cpp", ".hpp", ".cs", ".java"),
            *(".kt", ".kts", ".scala", ".go", ".rs", ".rb", ".php", ".pl", ".lua", ".r", ".jl"),
            *(".swift", ".m", ".mm", ".dart", ".ex", ".exs", ".erl", ".hs", ".ml", ".clj", ".sh"),
            *(".bash", ".zsh", ".fish", ".ps1", ".bat", ".cmd", ".gradle", ".proto", ".graphql"),
            *(".tf", ".dockerfile", ".makefile", ".cmake", ".asm", ".f90", ".vb", ".pas"),
        ),
        "text/plain",
    ),
}
_NAMED: Mapping[str, str] = {".pdf": "application/pdf", **_ZIPPED, **_TEXTS}
# The value of a file field's ``accept``. Texts without a known suffix can be dropped or pasted.
ACCEPTED: Sequence[str] = (".pdf", *_OLD, *_TEXTS)

# A file with more control characters than these is no text.
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\x1b\b"))
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")


def media_type_of(name: str, head: bytes) -> str:
    """The media type that is stored with a file. The bytes decide, and the suffix where they are a container
    or a text."""
    head = head[:HEAD_BYTES]
    suffix = PurePosixPath(name.lower()).suffix
    if (picture := read_picture(head)) is not None:
        return picture.media_type
    # A text may begin like a sound, or quote the header of a PDF.
    if suffix in _TEXTS and _may_be_text(head) and not head.startswith(_PDF):
        return _TEXTS[suffix]
    if (sound := sound_of(head)) is not None:
        return sound[0]
    if _PDF in head[:_PDF_HEADER_BYTES]:
        return "application/pdf"
    if head.startswith(_ZIP):
        members = (found for member, found in _MEMBERS.items() if member in head)
        return _ZIPPED.get(suffix) or next(members, "application/zip")
    if head.startswith(_OLE):
        return _OLD.get(suffix, _UNKNOWN)
    # Whatever it is: the reader that the suffix names says what is wrong with it.
    if (named := _NAMED.get(suffix)) is not None:
        return named
    return "text/plain" if _may_be_text(head) else _UNKNOWN


def _may_be_text(head: bytes) -> bool:
    return head.startswith(_WIDE_MARKS) or head.translate(None, _CONTROLS) == head
