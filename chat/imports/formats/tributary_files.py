"""The files of Tributary's own export: checks their bytes, and leaves out files without bytes."""

from __future__ import annotations

import base64
import binascii
import hashlib
from uuid import UUID

from chat.core.pictures import read_picture
from chat.exports import format as form
from chat.imports.archive import shown
from chat.imports.conversations import Unreadable
from chat.imports.limits import DOCUMENT_BYTES, current
from chat.imports.words import gettext

# Characters of a file's name, so that a suffix fits.
NAME_CHARACTERS = 200


def read_contents(document: form.Export) -> tuple[dict[str, bytes], list[str]]:
    """The bytes by their digests, and messages about files that are left out: these are removed
    from the document with all references. Raises ``Unreadable`` for bytes that don't match their
    file."""
    contents = {
        file.sha256: b"" for file in document.files if file.sha256 in (document.contents or {})
    }
    for digest in contents:
        contents[digest] = _decoded(digest, (document.contents or {})[digest])
    document.contents = None
    left_out = []
    kept = []
    texts = _texts_of(document)
    replaced: set[UUID] = set()
    for file in document.files:
        if file.sha256 not in contents and file.id in texts:
            words = gettext(
                "“%(name)s”: the export doesn’t contain the file. The text that was sent of it is attached instead."
            )
            left_out.append(words % {"name": shown(file.name)})
            _replace(file, texts[file.id].encode(errors="replace"), contents)
            replaced.add(file.id)
        elif file.sha256 not in contents:
            words = gettext("“%(name)s”: the export doesn’t contain the file.")
            left_out.append(words % {"name": shown(file.name)})
            continue
        if file.size_bytes != len(contents[file.sha256]):
            raise Unreadable(_altered(file.name))
        kept.append(file)
    # Each file is stored with its bytes, but in the export files may share them.
    if sum(file.size_bytes for file in kept) > DOCUMENT_BYTES:
        raise Unreadable(gettext("The files are too large together."))
    document.files = kept
    for sent in (each for turn in document.turns for each in turn.documents):
        # The text that was sent has no others.
        sent.pages = "" if sent.file in replaced else sent.pages
    left_out += _detach(document, contents)
    return contents, left_out


def _texts_of(document: form.Export) -> dict[UUID, str]:
    """The text that was sent first of each document."""
    sent = [each for turn in document.turns for each in turn.documents if each.text]
    return {each.file: each.text or "" for each in reversed(sent)}


def _replace(file: form.File, body: bytes, contents: dict[str, bytes]) -> None:
    """Puts a text in the place of a file."""
    file.name = f"{file.name[:NAME_CHARACTERS]}.txt"
    file.media_type, file.size_bytes = "text/plain", len(body)
    file.sha256 = hashlib.sha256(body).hexdigest()
    contents[file.sha256] = body


def _decoded(digest: str, text: str) -> bytes:
    limits = current()
    largest = max(
        *(limits.run_bytes, limits.mockup_file_bytes, limits.picture_bytes, limits.file_bytes)
    )
    if len(text) > largest * 4 // 3 + 4:
        raise Unreadable(gettext("A file is too large."))
    try:
        body = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Unreadable(_altered(digest)) from None
    if hashlib.sha256(body).hexdigest() != digest:
        raise Unreadable(_altered(digest))
    return body


def _altered(name: str) -> str:
    words = gettext("“%(name)s”: the content isn’t the one that the export announces.")
    return words % {"name": shown(name)}


def _detach(document: form.Export, contents: dict[str, bytes]) -> list[str]:
    """Removes references to files that are left out, and attached pictures that are none. What other attachments are is
    seen when they are restored (`chat.imports.restoring`)."""
    files = {file.id: file for file in document.files}
    left_out = []
    for turn in document.turns:
        attached = [files[each] for each in turn.attachments if each in files]
        fine = [file for file in attached if _can_be_attached(file, contents[file.sha256])]
        words = gettext("“%(name)s” isn’t an image that can be attached.")
        left_out += [words % {"name": shown(file.name)} for file in attached if file not in fine]
        turn.attachments = [file.id for file in fine]
        for run in turn.runs:
            run.files = [each for each in run.files if each.file in files]
    for mockup in document.mockups:
        for version in mockup.versions:
            for each in version.files:
                each.file = each.file if each.file in files else None
    return left_out


def _can_be_attached(file: form.File, body: bytes) -> bool:
    """Returns whether the file can be attached to a message; the media type of a picture becomes that of its bytes."""
    limits = current()
    facts = read_picture(body)
    if facts is None:
        return not file.media_type.startswith("image/")
    if len(body) > limits.picture_bytes or not facts.has_at_most(limits.picture_pixels):
        return False
    file.media_type = facts.media_type
    return True
