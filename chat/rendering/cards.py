"""What stands beside the text of an answer: media, artifacts, mockups, questions, branches."""

import json
from itertools import islice
from typing import ClassVar
from uuid import UUID

from django.utils.safestring import SafeString

from chat.events import (
    ActivityStep,
    ArtifactUpdate,
    AskQuestion,
    ContextFork,
    Event,
    Json,
    JsonObject,
    MediaUpdate,
    MockupUpdate,
    encode,
)
from chat.rendering import figures
from chat.rendering.addresses import host_of, is_safe_link
from chat.rendering.anatomy import (
    SHOWN_ENTRIES,
    Card,
    excerpt,
    excerpt_of_json,
    fill,
    name_of,
    pretty,
    safe,
)
from chat.rendering.differences import count_changes
from chat.rendering.parts import Patches
from chat.rendering.pictures import is_picture
from chat.rendering.sounds import sound_in
from chat.rendering.visible import reveal, storable
from chat.result import media_name


class Media(Card):
    """Pictures, and the names of what the page cannot show."""

    kind: ClassVar[str] = "media"
    classes = "item card media"

    def __init__(self, id: str, seq: int, *, t: int = 0) -> None:
        super().__init__(id, seq)
        # One item may hold several media; those that came as bytes are counted.
        self.media: dict[str, _Medium] = {}
        self._with_bytes = 0

    def update(self, event: MediaUpdate, seq: int) -> None:
        medium = self.media.setdefault(event.media_id, _Medium())
        if event.data and not medium.place:
            run = UUID(self.id[1:33])
            medium.place = f"/r/{run}/media/{event.choice}/{event.item}/{self._with_bytes}/"
            medium.name = media_name(event, self._with_bytes)
            self._with_bytes += 1
        medium.add(event)
        self.touch(seq)

    def conclude(self, seq: int, t: int, status: str) -> None:
        """Not every dialect says that a medium is final: the end of the answer says so too. The
        transaction that writes it keeps what came as bytes, and from then on a sound can be
        played."""
        for medium in self.media.values():
            medium.is_kept = bool(medium.place)
            if medium.is_kept and medium.sound:
                self.touch(seq)
            if medium.state == "in progress":
                medium.state = "" if status in _WHOLE else "not finished"
                self.touch(seq)

    def content(self) -> str:
        shown = islice(self.media.values(), SHOWN_ENTRIES)
        return "".join(medium.content() for medium in shown) + _more(len(self.media))


def _more(entries: int) -> SafeString:
    """How many entries of a list are not shown."""
    more = entries - SHOWN_ENTRIES
    return fill("more", more=figures.count(more)) if more > 0 else safe("")


# How an answer ends whose media are all there.
_WHOLE = ("completed", "waiting", "paused")
_FILE = "File"
# First word of a media type -> icon and what people call it.
_MEDIA = {"image": ("image", "Picture"), "audio": ("volume-2", "Sound"), "text": ("file", "Text")}


class _Medium:
    """What is known of one medium; its file is put together in `chat.actions.files`."""

    def __init__(self) -> None:
        self.media_type = self.picture = self.url = self.state = ""
        # Where it is kept when the answer has ended, and what it is called there.
        self.place = self.name = ""
        self.is_kept = False
        # Media type and suffix of a sound, by its bytes.
        self.sound: tuple[str, str] | None = None
        self.size_bytes = 0
        self.transcripts: list[str] = []

    def add(self, event: MediaUpdate) -> None:
        """What is final replaces what was partial. Partial sound goes on where it was; a partial
        picture is a better one than that before it."""
        is_final = event.state == "final"
        self.state = "" if is_final else "in progress"
        self.media_type = event.media_type
        self.url = event.url or self.url
        if event.data:
            goes_on = not is_final and event.media_type.startswith("audio/")
            if not goes_on or not self.size_bytes:
                self.sound = sound_in(event.data)
            self.size_bytes = (self.size_bytes if goes_on else 0) + _size_of_base64(event.data)
            is_shown = is_picture(event.media_type, event.data)
            self.picture = f"data:{event.media_type};base64,{event.data}" if is_shown else ""
        if event.transcript:
            if is_final:
                self.transcripts.clear()
            self.transcripts.append(event.transcript)

    def content(self) -> SafeString:
        icon, name = _MEDIA.get(self.media_type.partition("/")[0], ("file", _FILE))
        url = self.url if is_safe_link(self.url) else ""
        transcript = storable("".join(self.transcripts))
        if name == _FILE and transcript:
            # What is said of a file is its name.
            name, transcript = name_of(transcript), ""
        return fill(
            "media",
            icon=icon,
            name=name,
            picture=self.picture,
            form=_form_of(self.media_type),
            state=self.state,
            size=figures.size(self.size_bytes) if self.size_bytes else "",
            url=url,
            host=name_of(host_of(url)),
            sound=self.place if self.is_kept and self.sound else "",
            file=self._file_name(),
            transcript=transcript,
            hint="" if self.picture else self._hint(url),
        )

    def _file_name(self) -> str:
        stem, _, suffix = self.name.rpartition(".")
        return f"{stem}.{self.sound[1]}" if self.sound and suffix == "bin" else self.name

    def _hint(self, url: str) -> str:
        """What to do with what the page does not show."""
        if self.size_bytes and self.state == "in progress":
            way = "played" if self.sound else "downloaded"
            return f"It can be {way} when the answer has ended."
        if self.sound and self.is_kept:
            return ""
        if self.size_bytes:
            return "Not shown here. Download it under “Files”, below the answer."
        if url or self.transcripts:
            return ""
        return "There is no text for it, and it cannot be shown here."


def _form_of(media_type: str) -> str:
    """``PNG`` of ``image/png``; nothing where the type says nothing, which a star does too."""
    family, _, form = media_type.partition("/")
    if form in ("*", "octet-stream"):
        return ""
    is_short = family in _MEDIA and form.isalnum() and len(form) <= 4
    return form.upper() if is_short else name_of(media_type)


def _size_of_base64(data: str) -> int:
    return (len(data) - data[-2:].count("=")) * 3 // 4


class KeptCard(Card):
    """What is kept beside the answer, in versions. When the run has ended they can be opened:
    the transaction that writes the end stores them. The way there is an element of its own, so
    that a reader's open fold stays open."""

    # First part of the address, after that of the run.
    place: ClassVar[str] = ""

    def __init__(self, id: str, seq: int) -> None:
        super().__init__(id, seq)
        self.title = ""
        # Of the event that made the newest version; 0 where nothing was made.
        self.made_seq = 0
        self.is_kept = False
        self._told_seq = seq

    def told(self, seq: int) -> None:
        self._told_seq = seq
        self.touch(seq)

    def conclude(self, seq: int, t: int, status: str) -> None:
        if self.made_seq:
            self.is_kept = True
            self.touch(seq)

    def html(self) -> str:
        way = f'<div id="{self.id}-way" class="card-way">{self._way()}</div>'
        inner = f'<div id="{self.id}-told" class="card-told">{self.content()}</div>'
        return f'<div id="{self.id}" class="{self.classes}">{inner}{way}</div>'

    def patch(self, since: int, patches: Patches) -> None:
        if self._told_seq > since:
            patches.replace(f"{self.id}-told", self.content())
        if self.is_kept:
            patches.replace(f"{self.id}-way", self._way())

    def _way(self) -> SafeString:
        if not self.is_kept:
            return safe("")
        run = self.id[1:33]
        address = f"/r/{run[:8]}-{run[8:12]}-{run[12:16]}-{run[16:20]}-{run[20:]}"
        return fill(
            "way",
            address=f"{address}/{self.place}/{self.made_seq}/",
            title=name_of(self.title),
        )


class Artifact(KeptCard):
    classes = "item card kept artifact"
    place = "artifacts"

    def __init__(self, id: str, seq: int) -> None:
        super().__init__(id, seq)
        self.version = 0
        # Whether the versions of this run are all that there are.
        self.is_new = False
        self.language = self.body = ""
        self.changes: tuple[int, int] | None = None

    def update(self, event: ArtifactUpdate, seq: int) -> None:
        self.is_new = self.is_new or (not self.version and event.op == "created")
        self.version += 1
        self.title = event.title or self.title or event.identifier or event.artifact_id
        self.language = event.language or self.language
        before, self.body = self.body, self.body if event.content is None else event.content
        self.changes = count_changes(before, self.body) if self.version > 1 else None
        self.made_seq = seq
        self.told(seq)

    def content(self) -> str:
        return fill(
            "artifact",
            title=name_of(self.title),
            language=name_of(self.language),
            version=self.version if self.is_new else 0,
            changes=self.changes,
            size=figures.size(len(self.body.encode("utf-8", "replace"))) if self.body else "",
            body=excerpt(self.body, self.language.lower()) if self.body else "",
        )


_MOCKUP_STATES = {
    "calling": ("loader-circle", "Being made", "live"),
    "created": ("check", "Ready", "good"),
    "updated": ("check", "Updated", "good"),
    "error": ("triangle-alert", "Not complete", "bad"),
}


class Mockup(KeptCard):
    classes = "item card kept mockup"
    place = "mockups"

    def __init__(self, id: str, seq: int) -> None:
        super().__init__(id, seq)
        self.entry = ""
        # What is known of each path, in the order in which they were named.
        self.files: dict[str, JsonObject] = {}
        # Whether these are all its files, or those that an update of an earlier answer's named.
        self.is_whole = False
        self.last: MockupUpdate = MockupUpdate(op="calling")

    def update(self, event: MockupUpdate, seq: int) -> None:
        self.title = event.title or self.title or event.identifier or event.bundle_id or "Mockup"
        self.entry = event.entry or self.entry
        if event.files is not None:
            self.files = {str(file.get("path", "")): file for file in event.files}
            self.is_whole = self.is_whole or event.op == "created"
        for path in event.changed or []:
            self.files.setdefault(path, {})
        for path in event.deleted or []:
            self.files.pop(path, None)
        if event.op in ("created", "updated"):
            self.made_seq = seq
        self.last = event
        self.told(seq)

    def content(self) -> str:
        icon, word, tone = _MOCKUP_STATES[self.last.op]
        saved = (self.last.successful_paths or [])[:SHOWN_ENTRIES]
        shown = islice(self.files.items(), SHOWN_ENTRIES)
        return fill(
            "mockup",
            title=name_of(self.title),
            icon=icon,
            word=word,
            tone=tone,
            files=[self._file(path, file) for path, file in shown],
            count=len(self.files),
            is_whole=self.is_whole,
            more=_more(len(self.files)),
            message=reveal(storable(self.last.message or "")),
            code=name_of(self.last.code or ""),
            saved=[name_of(path) for path in saved],
            failed=name_of(self.last.failed_path or ""),
        )

    def _file(self, path: str, file: JsonObject) -> dict[str, object]:
        media_type = file.get("contentType") or file.get("content_type")
        size = file.get("size")
        return {
            "path": name_of(path),
            "type": name_of(media_type) if isinstance(media_type, str) else "",
            "size": figures.size(size) if type(size) is int and size > 0 else "",
            "is_entry": bool(path) and path == self.entry,
        }


class Question(Card):
    """What the model wants to know. The form to answer it is the page's, not the stream's."""

    classes = "item card question"

    def __init__(self, id: str, seq: int, event: AskQuestion) -> None:
        super().__init__(id, seq)
        self._event = event

    def content(self) -> str:
        event = self._event
        return fill(
            "question",
            question=storable(event.question),
            is_approval=event.style == "approval",
            options=[_option(option) for option in event.options[:SHOWN_ENTRIES]],
            more_options=_more(len(event.options)),
            fields=[_option(field) for field in event.fields[:SHOWN_ENTRIES]],
            more_fields=_more(len(event.fields)),
            multi_select=event.multi_select,
            free_text=event.allow_free_text,
        )


def _option(option: Json) -> dict[str, str]:
    """Label and explanation of an option or field, which dialects write as text or object."""
    if not isinstance(option, dict):
        return {"label": name_of(str(option)), "help": ""}
    label = next(
        (option[key] for key in ("label", "title", "name", "value", "id") if key in option), ""
    )
    return {
        "label": name_of(str(label)) or name_of(pretty(option)),
        "help": name_of(str(option.get("description") or "")),
    }


class Settled(Card):
    """What became of a question that the run before this one ended with. A page that shows the
    question itself shows that there, and hides this line."""

    classes = "item line given"

    def __init__(self, id: str, seq: int, event: ActivityStep) -> None:
        super().__init__(id, seq)
        self._event = event

    def content(self) -> str:
        return fill("settled", label=name_of(self._event.label or self._event.step))


class Generic(Card):
    """Anything without a template of its own: its name, and all that it holds."""

    classes = "item card generic"

    def __init__(self, id: str, seq: int, event: Event) -> None:
        super().__init__(id, seq)
        self._event = event

    def content(self) -> str:
        body: dict[str, Json] = json.loads(encode(self._event))
        return fill(
            "generic", name=name_of(str(body.pop("type", "event"))), body=excerpt_of_json(body)
        )


class Fork(Card):
    classes = "item line"

    def __init__(self, id: str, seq: int, event: ContextFork) -> None:
        super().__init__(id, seq)
        self._event = event

    def content(self) -> str:
        name = name_of(self._event.branch_name or self._event.branch_id)
        messages = self._event.message_count
        return fill("fork", name=name, messages="" if messages is None else figures.count(messages))
