"""The skills in a file that somebody uploads, and a skill as a ZIP file."""

from __future__ import annotations

import io
import re
import stat
import unicodedata
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import msgspec
from django.utils.translation import gettext, ngettext

from chat.core.errors import ActionRefused
from chat.core.isolation.child import Refused
from chat.core.isolation.parent import ChildKilled, Limits, read_in_child
from chat.core.text import without_hidden
from chat.skills import zip_reader
from chat.skills.manifest import FILE_NAME, Manifest, read_manifest
from chat.skills.zip_reader import Entry, Order

MEGABYTE = 1024 * 1024
# Limits of an upload. Other products allow 8 to 30 MB for a skill.
UPLOAD_BYTES = 10 * MEGABYTE
UNPACKED_BYTES = 20 * MEGABYTE
MOST_ENTRIES = 1_000
MOST_SKILLS = 20
# Limits of one skill.
SKILL_BYTES = 8 * MEGABYTE
MOST_FILES = 200
MOST_SEGMENTS = 8
SEGMENT_BYTES = 200
PATH_BYTES = 400
# Unpacking 20 MB takes a tenth of a second.
_LIMITS = Limits(
    memory_bytes=512 * MEGABYTE,
    cpu_seconds=10,
    wait_seconds=20,
    frame_bytes=UNPACKED_BYTES + MEGABYTE,
    output_bytes=UNPACKED_BYTES + 2 * MEGABYTE,
)
_READER = "chat.skills.zip_reader:read_archive"
_entries = msgspec.json.Decoder(list[Entry])
# Characters of paths that stand for something else on some system.
_FORBIDDEN = re.compile(r'[<>:"|?*\\\x00-\x1f\x7f]')
# Systems add these files by themselves.
_IGNORED = re.compile(r"(?:^|/)(?:__MACOSX/|\.DS_Store$|Thumbs\.db$|desktop\.ini$)")
# The moment of all entries, so that the same skill always is the same ZIP file.
_MOMENT = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSkill:
    """A skill in an uploaded file. ``text`` is its SKILL.md, ``files`` are all others by their path in the skill's
    folder."""

    folder: str
    text: str
    manifest: Manifest
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """``left_out`` files belong to no skill."""

    skills: Sequence[FoundSkill]
    left_out: int = 0


def read_upload(body: bytes) -> Contents:
    """The skills of a ZIP file, or the one that a single SKILL.md is. Raises ``ActionRefused``."""
    if len(body) > UPLOAD_BYTES:
        words = gettext("This file is too large: up to %(most)d MB are allowed.")
        raise ActionRefused(words % {"most": UPLOAD_BYTES // MEGABYTE})
    if not body.startswith(b"PK"):
        text = _text_of(body, FILE_NAME)
        return Contents(skills=[FoundSkill(folder="", text=text, manifest=read_manifest(text))])
    return _skills_in(_unpack(body))


def _unpack(body: bytes) -> dict[str, bytes]:
    """The files of a ZIP file by their checked paths. Raises ``ActionRefused``."""
    order = msgspec.json.encode(Order(most_entries=MOST_ENTRIES, most_bytes=UNPACKED_BYTES))
    frames = read_in_child(_READER, io.BytesIO(body), order, limits=_LIMITS)
    try:
        with closing(frames):
            entries = _entries.decode(next(frames, b"[]"))
            paths = _checked_paths(entries)
            found = dict(zip(paths, frames, strict=True))
    except Refused as refused:
        raise ActionRefused(_sentence(str(refused))) from None
    except ChildKilled as killed:
        raise ActionRefused(str(killed)) from None
    except (msgspec.MsgspecError, ValueError):
        raise ActionRefused(_sentence(zip_reader.DAMAGED)) from None
    return {path: content for path, content in found.items() if not _IGNORED.search(path)}


def _sentence(code: str) -> str:
    match code:
        case zip_reader.PASSWORD:
            return gettext("This ZIP file is protected with a password. Make one without.")
        case zip_reader.TOO_MANY:
            words = gettext("This ZIP file has too many files: up to %(most)s are allowed.")
            return words % {"most": f"{MOST_ENTRIES:,}"}
        case zip_reader.TOO_LARGE:
            words = gettext(
                "This ZIP file is too large once it is unpacked: up to %(most)d MB are allowed."
            )
            return words % {"most": UNPACKED_BYTES // MEGABYTE}
        case zip_reader.METHOD:
            return gettext(
                "This ZIP file is compressed in an unusual way. Make it again with another program."
            )
        case _:
            return gettext("This ZIP file is damaged. Make it again.")


def _checked_paths(entries: Sequence[Entry]) -> list[str]:
    """The paths of the files, in their order. Raises ``ActionRefused`` for what could become another place or another kind
    of file on some system."""
    paths: list[str] = []
    # Paths are compared as on systems that distinguish neither case nor Unicode normal forms.
    files: set[str] = set()
    folders: set[str] = set()
    for entry in entries:
        path = _checked_path(entry)
        folded = path.casefold()
        above = folded.split("/")[: None if entry.is_folder else -1]
        folders |= {"/".join(above[:count]) for count in range(1, len(above) + 1)}
        if entry.is_folder:
            continue
        if folded in files:
            raise ActionRefused(
                _about(gettext("The file “%(name)s” is twice in the ZIP file."), path)
            )
        files.add(folded)
        paths.append(path)
    if clash := sorted(files & folders):
        words = gettext("“%(name)s” is a file and a folder in the ZIP file.")
        raise ActionRefused(_about(words, clash[0]))
    return paths


def _checked_path(entry: Entry) -> str:
    path = unicodedata.normalize("NFC", entry.name).removesuffix("/" if entry.is_folder else "")
    segments = path.split("/")
    is_safe = (
        not _FORBIDDEN.search(path)
        and without_hidden(path) == path
        and len(path.encode("utf-8", "replace")) <= PATH_BYTES
        and len(segments) <= MOST_SEGMENTS + 1
        and all(_is_safe_segment(each) for each in segments)
    )
    if not is_safe:
        words = gettext("The name “%(name)s” in the ZIP file can’t be used. Rename the file.")
        raise ActionRefused(_about(words, entry.name))
    kind = stat.S_IFMT(entry.mode)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        words = gettext(
            "“%(name)s” in the ZIP file is a link, not a file. Put the file itself in its place."
        )
        raise ActionRefused(_about(words, path))
    return path


def _is_safe_segment(name: str) -> bool:
    is_trimmed = name == name.strip(" ") and not name.endswith(".")
    return bool(name) and is_trimmed and len(name.encode("utf-8", "replace")) <= SEGMENT_BYTES


def _about(words: str, name: str) -> str:
    return words % {"name": " ".join(without_hidden(name).split())[:100]}


# --- what is a skill ------------------------------------------------------------------------------


def _skills_in(files: Mapping[str, bytes]) -> Contents:
    folders = list(_skill_folders(files))
    if not folders:
        raise ActionRefused(gettext("No SKILL.md was found in this ZIP file."))
    if len(folders) > MOST_SKILLS:
        words = ngettext(
            "A ZIP file can have up to %(count)d skill.",
            "A ZIP file can have up to %(count)d skills.",
            MOST_SKILLS,
        )
        raise ActionRefused(words % {"count": MOST_SKILLS})
    skills = [_skill_in(folder, files) for folder in folders]
    names = [each.manifest.name for each in skills]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ActionRefused(
            _about(gettext("Two skills in this file have the name “%(name)s”."), twice[0])
        )
    taken = sum(len(each.files) + 1 for each in skills)
    return Contents(skills=skills, left_out=len(files) - taken)


def _skill_folders(files: Mapping[str, bytes]) -> Iterator[str]:
    """The folders with a SKILL.md, each as the beginning of its paths. One below another belongs to that one."""
    found: list[str] = []
    for path in sorted(files, key=lambda path: (path.count("/"), path)):
        folder, _, name = path.rpartition("/")
        start = f"{folder}/" if folder else ""
        if name == FILE_NAME and not any(start.startswith(above) for above in found):
            found.append(start)
            yield start


def _skill_in(start: str, files: Mapping[str, bytes]) -> FoundSkill:
    """Raises ``ActionRefused``."""
    folder = start.removesuffix("/")
    own = {path[len(start) :]: body for path, body in files.items() if path.startswith(start)}
    try:
        text = _text_of(own.pop(FILE_NAME), FILE_NAME)
        manifest = read_manifest(text)
        check_size(text, {path: len(body) for path, body in own.items()})
    except ActionRefused as refusal:
        if not folder:
            raise
        words = gettext("%(folder)s: %(problem)s")
        raise ActionRefused(words % {"folder": folder, "problem": refusal}) from None
    return FoundSkill(folder=folder, text=text, manifest=manifest, files=dict(sorted(own.items())))


def check_size(text: str, sizes: Mapping[str, int]) -> None:
    """Raises ``ActionRefused`` for a skill that is too large."""
    if len(sizes) > MOST_FILES:
        words = gettext("A skill can have up to %(most)d files.")
        raise ActionRefused(words % {"most": MOST_FILES})
    if len(text.encode()) + sum(sizes.values()) > SKILL_BYTES:
        words = gettext("A skill can have up to %(most)d MB.")
        raise ActionRefused(words % {"most": SKILL_BYTES // MEGABYTE})


def _text_of(body: bytes, name: str) -> str:
    try:
        # A byte order mark stays in the text, so that it is the same file when it is downloaded.
        return body.decode()
    except UnicodeDecodeError:
        raise ActionRefused(_about(gettext("%(name)s isn’t text in UTF-8."), name)) from None


# --- as a ZIP file --------------------------------------------------------------------------------


def as_zip(name: str, files: Mapping[str, bytes]) -> bytes:
    """The folder of a skill as a ZIP file. The same files always give the same bytes."""
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(files, key=lambda path: (path != FILE_NAME, path)):
            info = zipfile.ZipInfo(f"{name}/{path}", _MOMENT)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(info, files[path])
    return body.getvalue()
