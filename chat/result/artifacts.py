"""Artifacts, mockups and media of a run, assembled from their events."""

import re

import msgspec

from chat.events import ArtifactUpdate, Event, JsonObject, MediaUpdate, MockupUpdate


class Bundle:
    """A mockup while its events are folded. ``members`` are the latest; each version keeps its
    own."""

    def __init__(self) -> None:
        self.members: JsonObject = {}
        self._files: dict[str, JsonObject] = {}
        self._versions: list[JsonObject] = []

    def update(self, event: MockupUpdate) -> None:
        for name in _OF_ONE_MOCKUP_EVENT:
            self.members.pop(name, None)
        members = members_of(event)
        self.members.update(members)
        if event.op in ("created", "updated"):
            self._apply(event)
            self._versions.append(numbered_version(event) | members)

    def _apply(self, event: MockupUpdate) -> None:
        """An update lists paths, not all files: what it adds or replaces, and what it deletes."""
        if event.files is not None:
            self._files = {str(file.get("path", "")): file for file in event.files}
        for path in event.changed or ():
            self._files.setdefault(path, {"path": path})
        for path in event.deleted or ():
            self._files.pop(path, None)

    def entry(self) -> JsonObject:
        """The latest members, the present files, and the versions with what each said."""
        entry = dict(self.members)
        if self._versions:
            entry["files"] = list(self._files.values())
        return {**entry, "versions": list(self._versions)}


# The members that each version of an artifact has of its own.
ARTIFACT_VERSION_FIELDS = ("identifier", "title", "language", "content_type", "content")
# These are about the event that contains them, not about later ones.
_OF_ONE_MOCKUP_EVENT = (
    *("changed", "deleted", "code", "message", "successful_paths", "failed_path"),
)


def numbered_version(event: ArtifactUpdate | MockupUpdate) -> JsonObject:
    """The start of a version: what was done, and its position in the log, if events are
    numbered."""
    return {"op": event.op, "seq": event.seq} if event.seq else {"op": event.op}


# The first word of a media type, and the name of its file.
_MEDIA_NAMES = {"image": "picture", "audio": "sound", "video": "film"}
_MEDIA_SUFFIX = re.compile(r"[a-z0-9]{1,8}")
_SUFFIXES = {
    "image/jpeg": "jpg",
    "image/svg+xml": "svg",
    "audio/mpeg": "mp3",
    "text/plain": "txt",
}


def media_name(event: MediaUpdate, index: int) -> str:
    """The name of a file in an answer, the same whenever its events are read: ``picture-3.png``.
    ``index`` counts the media of one item, from 0."""
    media_type = event.media_type.lower()
    main, _, sub = media_type.partition("/")
    suffix = _SUFFIXES.get(media_type) or (sub if _MEDIA_SUFFIX.fullmatch(sub) else "bin")
    numbers = [*([event.choice] if event.choice else []), event.item + 1]
    numbers += [index + 1] if index else []
    return f"{_MEDIA_NAMES.get(main, 'file')}-{'-'.join(map(str, numbers))}.{suffix}"


def members_of(event: Event) -> JsonObject:
    """The event's own members, without the common ones."""
    members: JsonObject = msgspec.to_builtins(event)
    for name in ("type", "seq", "t"):
        members.pop(name, None)
    return members
