"""Stores the artifacts and mockups of an answer as rows: numbered versions, and files to fetch.

Every value comes from an upstream. Names are cut, text that no column can hold is repaired, and
what cannot be stored is left out, so that it never prevents the run from ending.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.utils.translation import gettext_noop

from chat.artifacts.paths import PATH_LENGTH, path_problem
from chat.core import notify
from chat.core.text import clean
from chat.events import Json, JsonObject, Result
from chat.models import (
    Artifact,
    ArtifactVersion,
    FetchStatus,
    Mockup,
    MockupFile,
    MockupVersion,
    Run,
)
from chat.runs.outcomes import OutcomeStep

# Limits for one run. No real answer makes more; a hostile one could announce hundreds of thousands.
# The run's log has the entries that are left out here.
MOST_VERSIONS = 500
MOST_MOCKUP_VERSIONS = 50
# A version that does not repeat its content is stored with the whole content, so twice what a run
# may send must fit.
MOST_CHARACTERS = 2 * settings.RUN_BYTES
LARGEST_SIZE = 2**63 - 1
# How many entries of a list of paths are read, for each file that a bundle may have. It leaves room
# for paths that are named twice or were deleted.
PATHS_PER_FILE = 10

# The notification channel for the process that fetches files.
FILES = "files"

# Reasons why a file is missing. They are stored in English, and translated when they are shown.
REPLACED = gettext_noop("A newer version replaced this file before it was downloaded.")
TOO_LARGE = gettext_noop("This file exceeds the size limit.")


def store_artifacts(run: Run, result: Result, prepared: object = None) -> None:
    """Numbers each version in its conversation, across all runs.

    Call this in the transaction that ends the run, after the conversation row was updated in it.
    The lock on that row lets only one run of a conversation end at a time.
    """
    left, room = MOST_VERSIONS, MOST_CHARACTERS
    for entry in result.ext.artifacts[:MOST_VERSIONS]:
        # If there are too many, the last ones are kept: they are the result of the answer.
        versions = (entry.get("versions") or [entry])[-max(1, left) :]
        left -= len(versions)
        artifact, _ = Artifact.objects.get_or_create(
            conversation_id=run.conversation_id, artifact_id=identity(entry.get("artifact_id"))
        )
        rows = _last_that_fit(_new_versions(artifact, run, versions), room)
        room -= sum(len(row.content) for row in rows)
        ArtifactVersion.objects.bulk_create(rows)


def _last_that_fit(rows: Sequence[ArtifactVersion], room: int) -> Sequence[ArtifactVersion]:
    """The newest versions that fit, at least one. Their numbers are the same as if all had been
    kept."""
    kept = 0
    for row in reversed(rows):
        room -= len(row.content)
        if kept and room < 0:
            break
        kept += 1
    fitting = rows[len(rows) - kept :]
    for number, row in enumerate(fitting, start=rows[0].number):
        row.number = number
    return fitting


def _new_versions(
    artifact: Artifact, run: Run, versions: Sequence[JsonObject]
) -> list[ArtifactVersion]:
    """The new versions. Missing values are copied from the version before, whichever run made
    it."""
    last = artifact.versions.order_by("-number").first()
    rows: list[ArtifactVersion] = []
    for position, said in enumerate(versions, start=1):
        last = ArtifactVersion(
            artifact=artifact,
            number=last.number + 1 if last else 1,
            run=run,
            seq=_whole(said.get("seq")) or position,
            identifier=_text(said, "identifier", 200, last),
            title=_text(said, "title", 300, last),
            language=_text(said, "language", 60, last),
            content_type=_text(said, "content_type", 100, last),
            content=_text(said, "content", None, last),
        )
        rows.append(last)
    return rows


def store_mockups(run: Run, result: Result, prepared: object = None) -> None:
    """Stores the versions of each bundle, with a row for every file. The runner fetches the files
    that are wanted.

    Call this like ``store_artifacts``.
    """
    left = MOST_MOCKUP_VERSIONS
    for entry in result.ext.mockups:
        versions = (entry.get("versions") or [])[:left]
        if not versions or not entry.get("bundle_id"):
            continue  # The file was only announced, or it failed.
        left -= len(versions)
        mockup, _ = Mockup.objects.get_or_create(
            conversation_id=run.conversation_id,
            bundle_id=identity(entry["bundle_id"]),
            defaults={"upstream_id": run.upstream_id},
        )
        for position, said in enumerate(versions, start=1):
            _append_mockup(mockup, run, said, position)
        notify.publish_after_commit(FILES)


def _append_mockup(mockup: Mockup, run: Run, said: JsonObject, position: int) -> None:
    last = mockup.versions.order_by("-number").first()
    before = {file.path: file for file in last.files.all()} if last else {}
    change = read_change(said, before)
    version = MockupVersion.objects.create(
        mockup=mockup,
        number=last.number + 1 if last else 1,
        run=run,
        seq=_whole(said.get("seq")) or position,
        identifier=_text(said, "identifier", 200, last),
        title=_text(said, "title", 300, last),
        entry=_text(said, "entry", PATH_LENGTH, last),
        changed=sorted(change.changed),
        deleted=sorted(change.deleted),
    )
    # An upstream serves only the newest bytes, which would be wrong for an older version.
    MockupFile.objects.filter(
        version__mockup=mockup, status=FetchStatus.WANTED, path__in=change.changed | change.deleted
    ).update(status=FetchStatus.REFUSED, reason=REPLACED)
    for file in change.files:
        file.version = version
    MockupFile.objects.bulk_create(change.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """The files of a version (rows that are not saved yet), and the paths at which it differs from
    the version before."""

    files: Sequence[MockupFile]
    changed: frozenset[str]
    deleted: frozenset[str]


def read_change(said: JsonObject, before: Mapping[str, MockupFile]) -> FileChange:
    """Reads the change that an upstream announces. A creation lists all files. An update names the
    paths that it added, replaced or deleted; the other files stay as in ``before``."""
    listed = _by_path(_announced(file) for file in _objects(said.get("files")))
    if said.get("op") != "updated":
        new, kept = listed, {}
    else:
        named = _by_path(_named(path, before) for path in _strings(said.get("changed")))
        added = {path: file for path, file in listed.items() if path not in before}
        new = {**named, **added, **{path: listed[path] for path in named if path in listed}}
        gone = {column_path(path) for path in _strings(said.get("deleted"))}
        kept = {path: _kept(file) for path, file in before.items() if path not in {*new, *gone}}
    files = list({**kept, **new}.values())[: settings.MOCKUP_FILES]
    paths = {file.path for file in files}
    return FileChange(
        files=files,
        changed=frozenset(new) & paths,
        deleted=frozenset(before) - paths,
    )


def _by_path(files: Iterable[MockupFile]) -> dict[str, MockupFile]:
    return {file.path: file for file in files}


def _announced(file: JsonObject) -> MockupFile:
    path = file.get("path")
    content_type = file.get("contentType") or file.get("content_type")
    return _wanted(
        path if isinstance(path, str) else "",
        clean(content_type)[:100] if isinstance(content_type, str) else "",
        _whole(file.get("size")),
    )


def _named(path: str, before: Mapping[str, MockupFile]) -> MockupFile:
    """A path that an update changed. Its type is only known from the version before."""
    known = before.get(column_path(path))
    return _wanted(path, known.content_type if known else "", 0)


def _wanted(path: str, content_type: str, size: int) -> MockupFile:
    problem = path_problem(path) or (TOO_LARGE if size > settings.MOCKUP_FILE_BYTES else "")
    return MockupFile(
        path=column_path(path),
        content_type=content_type,
        announced_bytes=size,
        status=FetchStatus.REFUSED if problem else FetchStatus.WANTED,
        reason=problem,
    )


def _kept(file: MockupFile) -> MockupFile:
    """The same file in the next version: with the same bytes, or wanted as before."""
    return MockupFile(
        path=file.path,
        content_type=file.content_type,
        announced_bytes=file.announced_bytes,
        status=file.status,
        reason=file.reason,
        attempts=file.attempts,
        due_at=file.due_at,
        file_id=file.file_id,
    )


# --- values that fit their columns -------------------------------------------------------------


def identity(value: Json) -> str:
    """An upstream's id for a column of 200 characters. Long ids keep a hash, so that they stay
    distinct."""
    text = clean(str(value))
    if len(text) <= 200:
        return text
    return f"{text[:150]}…{hashlib.sha256(text.encode()).hexdigest()[:40]}"


def column_path(path: str) -> str:
    return clean(path)[:PATH_LENGTH]


def _text(
    said: JsonObject, name: str, length: int | None, last: ArtifactVersion | MockupVersion | None
) -> str:
    """A member, cut to its column. If this version leaves it out, it is taken from the ``last``
    one."""
    value = said.get(name)
    if isinstance(value, str):
        return clean(value)[:length]
    return getattr(last, name) if last else ""


def _whole(value: Json) -> int:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return min(value, LARGEST_SIZE) if is_whole and value > 0 else 0


def _strings(value: Json) -> list[str]:
    return [each for each in _some_of(value) if isinstance(each, str)]


def _objects(value: Json) -> list[JsonObject]:
    return [each for each in _some_of(value) if isinstance(each, dict)]


def _some_of(value: Json) -> list[Json]:
    """The part of a list of files or paths that a bundle can use."""
    return value[: PATHS_PER_FILE * settings.MOCKUP_FILES] if isinstance(value, list) else []


STORE_ARTIFACTS = OutcomeStep(
    name="artifacts",
    applies=lambda result, prepared: bool(result.ext.artifacts),
    store=store_artifacts,
)
STORE_MOCKUPS = OutcomeStep(
    name="mockups",
    applies=lambda result, prepared: bool(result.ext.mockups),
    store=store_mockups,
)
