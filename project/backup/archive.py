"""The file of a backup: a manifest, the dump of the database, the objects of the storage for files and,
on request, the keys.

It is an uncompressed tar of `MANIFEST`, the dump, at most two key files, and the objects, each with its
SHA-256 in its path. It is written to a
temporary file, read back and then renamed, so that an incomplete backup never has the final name.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec
from django.utils.translation import gettext

MANIFEST = "manifest.json"
DUMP = "database"
KEYS = "keys/"
OBJECTS = "objects/"
_OBJECT = re.compile(rf"{OBJECTS}([0-9a-f]{{64}})/([0-9a-f]{{2}}/[0-9a-f]{{32}})")
FORMAT = 1
# A real manifest is much smaller: it lists about a hundred migrations.
LARGEST_MANIFEST = 1024 * 1024
PIECE = 1024 * 1024


class BackupError(Exception):
    """``str()`` explains the problem to the operator in one sentence."""


class Manifest(msgspec.Struct, kw_only=True, forbid_unknown_fields=False):
    """``migrations`` are those applied in the dump, as "application.name"; ``key_marks`` are the
    fingerprints of the installation's keys."""

    product: str = "tributary"
    format: int = FORMAT
    version: str
    made_at: str
    engine: str
    migrations: list[str]
    key_marks: list[str] = []
    counts: dict[str, int] = {}
    dump_bytes: int
    dump_sha256: str
    has_keys: bool = False


@contextmanager
def draft_beside(path: Path) -> Iterator[Path]:
    """A new file of mode 0600 next to ``path``. It is removed at the end if it still exists."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise BackupError(
            gettext("Can’t write a file next to %(path)s: %(reason)s.")
            % {"path": path, "reason": error.strerror}
        ) from None
    try:
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def write(
    path: Path,
    dump: Path,
    manifest: Manifest,
    keys: Mapping[str, str],
    objects: Iterable[tuple[str, bytes]] = (),
) -> None:
    """Writes the file and verifies it. ``objects`` are names and bytes. Raises `BackupError`."""
    with draft_beside(path) as draft:
        with draft.open("wb") as file:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
                _add(tar, MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
                tar.add(dump, arcname=DUMP, filter=_plain)
                for name, text in keys.items():
                    _add(tar, KEYS + name, text.encode())
                for name, body in objects:
                    digest = hashlib.sha256(body).hexdigest()
                    _add(tar, f"{OBJECTS}{digest}/{name}", body)
            file.flush()
            os.fsync(file.fileno())
        check(draft)
        os.replace(draft, path)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Removes the owner, because it is private to the machine."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o600
    return member


def _add(tar: tarfile.TarFile, name: str, body: bytes) -> None:
    member = _plain(tarfile.TarInfo(name))
    member.size = len(body)
    tar.addfile(member, io.BytesIO(body))


def read_manifest(path: Path) -> Manifest:
    with _opened(path) as tar:
        member = tar.next()
        if member is None or member.name != MANIFEST or member.size > LARGEST_MANIFEST:
            raise BackupError(gettext("%(path)s isn’t a Tributary backup.") % {"path": path})
        body = _member(tar, member).read()
    try:
        manifest = msgspec.json.decode(body, type=Manifest)
    except msgspec.DecodeError:
        raise BackupError(gettext("%(path)s isn’t a Tributary backup.") % {"path": path}) from None
    if manifest.product != "tributary" or manifest.format != FORMAT:
        raise BackupError(
            gettext("%(path)s has a backup format that this version doesn’t support.")
            % {"path": path}
        )
    return manifest


def check(path: Path) -> Manifest:
    """The manifest, if the dump and the objects match their checksums. Raises `BackupError`."""
    manifest = read_manifest(path)
    with _opened(path) as tar:
        source = _member(tar, tar.getmember(DUMP))
        is_whole = hash_of(source.read) == (manifest.dump_sha256, manifest.dump_bytes)
        for member in _objects_in(tar):
            found = _OBJECT.fullmatch(member.name)
            digest, _ = hash_of(_member(tar, member).read)
            is_whole = is_whole and found is not None and digest == found[1]
    if not is_whole:
        raise BackupError(
            gettext("%(path)s is damaged: its contents don’t match its checksum.") % {"path": path}
        )
    return manifest


def _objects_in(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    return (member for member in tar if member.name.startswith(OBJECTS))


def read_objects(path: Path) -> Iterator[tuple[str, bytes]]:
    """The name and the bytes of each object of a backup that was checked."""
    with _opened(path) as tar:
        for member in _objects_in(tar):
            if found := _OBJECT.fullmatch(member.name):
                yield found[2], _member(tar, member).read()


def extract_dump(path: Path, target: Path) -> None:
    with _opened(path) as tar, target.open("wb") as file:
        source = _member(tar, tar.getmember(DUMP))
        while piece := source.read(PIECE):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def read_keys(path: Path) -> dict[str, str]:
    with _opened(path) as tar:
        return {
            member.name.removeprefix(KEYS): _member(tar, member).read().decode()
            for member in tar.getmembers()
            if member.name.startswith(KEYS) and member.size < PIECE
        }


def hash_of(read: Callable[[int], bytes]) -> tuple[str, int]:
    """SHA-256 and length of a stream."""
    digest, length = hashlib.sha256(), 0
    while piece := read(PIECE):
        digest.update(piece)
        length += len(piece)
    return digest.hexdigest(), length


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(path, mode="r:") as tar:
            yield tar
    except (tarfile.TarError, KeyError, EOFError):
        raise BackupError(
            gettext("%(path)s isn’t a complete Tributary backup.") % {"path": path}
        ) from None
    except OSError as error:
        raise BackupError(
            gettext("Can’t read %(path)s: %(reason)s.")
            % {"path": path, "reason": error.strerror or error}
        ) from None


def _member(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    file = tar.extractfile(member)
    if file is None:
        raise BackupError(gettext("The backup contains something other than files."))
    return file
