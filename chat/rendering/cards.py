"""What stands beside the text of an answer: media, artifacts, mockups, questions, branches."""

import json
from itertools import islice
from typing import ClassVar

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
from chat.rendering.markdown import host_of, is_safe_link
from chat.rendering.visible import reveal, storable

# Pictures travel inside the page; a larger one is named, not shown.
PICTURE_CHARACTERS = 4 * 1024 * 1024
PICTURE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")


class Media(Card):
    """Pictures, and the names of what the page cannot show."""

    kind: ClassVar[str] = "media"
    classes = "item card media"

    def __init__(self, id: str, seq: int, *, t: int = 0) -> None:
        super().__init__(id, seq)
        # One item may hold several media.
        self.media: dict[str, _Medium] = {}

    def update(self, event: MediaUpdate, seq: int) -> None:
        self.media.setdefault(event.media_id, _Medium()).add(event)
        self.touch(seq)

    def conclude(self, seq: int, t: int, status: str) -> None:
        """Not every dialect says that a medium is final: the end of the answer says so too."""
        for medium in self.media.values():
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
# First word of a media type -> icon and what people call it.
_MEDIA = {"image": ("image", "Picture"), "audio": ("volume-2", "Sound"), "text": ("file", "Text")}


class _Medium:
    """What is known of one medium; its file is put together in `chat.actions.files`."""

    def __init__(self) -> None:
        self.media_type = self.picture = self.url = self.state = ""
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
            self.size_bytes = (self.size_bytes if goes_on else 0) + _size_of_base64(event.data)
            self.picture = event.data if _is_picture(event) else ""
        if event.transcript:
            if is_final:
                self.transcripts.clear()
            self.transcripts.append(event.transcript)

    def content(self) -> SafeString:
        icon, name = _MEDIA.get(self.media_type.partition("/")[0], ("file", "File"))
        url = self.url if is_safe_link(self.url) else ""
        return fill(
            "media",
            icon=icon,
            name=name,
            picture=f"data:{self.media_type};base64,{self.picture}" if self.picture else "",
            form=_form_of(self.media_type),
            state=self.state,
            size=figures.size(self.size_bytes) if self.size_bytes else "",
            url=url,
            host=name_of(host_of(url)),
            transcript=storable("".join(self.transcripts)),
            hint="" if self.picture else self._hint(url),
        )

    def _hint(self, url: str) -> str:
        """What to do with what the page does not show."""
        if self.size_bytes and self.state == "in progress":
            return "It can be downloaded when the answer has ended."
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


def _is_picture(event: MediaUpdate) -> bool:
    data = event.data or ""
    is_small = 0 < len(data) <= PICTURE_CHARACTERS
    return event.media_type in PICTURE_TYPES and is_small and _is_base64(data)


def _size_of_base64(data: str) -> int:
    return (len(data) - data[-2:].count("=")) * 3 // 4


def _is_base64(data: str) -> bool:
    return data.isascii() and data.replace("+", "").replace("/", "").rstrip("=").isalnum()


class Artifact(Card):
    classes = "item card artifact"

    def __init__(self, id: str, seq: int) -> None:
        super().__init__(id, seq)
        self.version = 0
        self.title = self.language = self.body = ""

    def update(self, event: ArtifactUpdate, seq: int) -> None:
        self.version += 1
        self.title = event.title or self.title or event.identifier or event.artifact_id
        self.language = event.language or self.language
        self.body = event.content if event.content is not None else self.body
        self.touch(seq)

    def content(self) -> str:
        return fill(
            "artifact",
            title=name_of(self.title),
            language=name_of(self.language),
            version=self.version,
            size=figures.size(len(self.body.encode("utf-8", "replace"))) if self.body else "",
            body=excerpt(self.body, self.language.lower()) if self.body else "",
        )


_MOCKUP_STATES = {
    "calling": ("loader-circle", "Being made", "live"),
    "created": ("check", "Ready", "good"),
    "updated": ("check", "Updated", "good"),
    "error": ("triangle-alert", "Not complete", "bad"),
}


class Mockup(Card):
    classes = "item card mockup"

    def __init__(self, id: str, seq: int) -> None:
        super().__init__(id, seq)
        self.title = self.entry = ""
        # What is known of each path, in the order in which they were named.
        self.files: dict[str, JsonObject] = {}
        self.last: MockupUpdate = MockupUpdate(op="calling")

    def update(self, event: MockupUpdate, seq: int) -> None:
        self.title = event.title or self.title or event.identifier or event.bundle_id or "Mockup"
        self.entry = event.entry or self.entry
        if event.files is not None:
            self.files = {str(file.get("path", "")): file for file in event.files}
        for path in event.changed or []:
            self.files.setdefault(path, {})
        for path in event.deleted or []:
            self.files.pop(path, None)
        self.last = event
        self.touch(seq)

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
