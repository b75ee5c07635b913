"""The cards of output items: artifacts, mockups, questions, branches, unknown items, choices."""

import json
from itertools import islice
from typing import ClassVar

from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_noop

from chat.events import (
    ActivityStep,
    ArtifactUpdate,
    AskQuestion,
    ContextFork,
    Event,
    Json,
    JsonObject,
    MockupUpdate,
    encode,
)
from chat.rendering import figures
from chat.rendering.approvals import call_in
from chat.rendering.components import (
    SHOWN_ENTRIES,
    Card,
    Entry,
    excerpt,
    excerpt_of_json,
    fill,
    more_note,
    name_of,
    pretty,
    safe,
)
from chat.rendering.media import Media
from chat.rendering.parts import Part, Patches, Stack
from chat.rendering.safety import reveal, storable
from chat.rendering.text_diff import count_changes
from chat.rendering.texts import Reasoning, Refusal, Text
from chat.rendering.tool_calls import ToolEntry
from chat.result.artifacts import members_of


class KeptCard(Card):
    """The card of an artifact or mockup, with its versions. They can be opened when the run has
    ended, because the transaction that ends it stores them. The link is a separate element, so that
    a reader's open fold stays open."""

    # First part of the path below the address of the run.
    place: ClassVar[str] = ""
    icon: ClassVar[str] = "file-code"

    def __init__(self, id: str, seq: int) -> None:
        super().__init__(id, seq)
        self.title = ""
        # The seq of the event with the newest version; 0 without a version.
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

    def shown_title(self) -> str:
        return name_of(self.title)

    def _way(self) -> SafeString:
        if not self.is_kept:
            return safe("")
        run = self.id[1:33]
        address = f"/r/{run[:8]}-{run[8:12]}-{run[12:16]}-{run[16:20]}-{run[20:]}"
        return fill(
            "way",
            icon=self.icon,
            address=f"{address}/{self.place}/{self.made_seq}/",
            title=self.shown_title(),
        )


class ArtifactCard(KeptCard):
    classes = "item card kept artifact"
    place = "artifacts"

    def __init__(self, id: str, seq: int) -> None:
        super().__init__(id, seq)
        self.version = 0
        # True if this run has all versions.
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
    "calling": ("loader-circle", gettext_noop("Creating…"), "live"),
    "created": ("check", gettext_noop("Ready"), "good"),
    "updated": ("check", gettext_noop("Updated"), "good"),
    "error": ("triangle-alert", gettext_noop("Incomplete"), "bad"),
}
# A mockup that was only announced when the answer ended.
_NEVER_CAME = ("triangle-alert", gettext_noop("Nothing received"), "bad")


class MockupCard(KeptCard):
    classes = "item card kept mockup"
    place = "mockups"
    icon = "layout-template"

    def __init__(self, id: str, seq: int) -> None:
        super().__init__(id, seq)
        self.entry = ""
        # The known members of each file by path, in order of appearance.
        self.files: dict[str, JsonObject] = {}
        # False if only an update was received, which names some of the files.
        self.is_whole = False
        self.last: MockupUpdate = MockupUpdate(op="calling")
        self.has_ended = False

    def update(self, event: MockupUpdate, seq: int) -> None:
        self.title = event.title or self.title or event.identifier or event.bundle_id or ""
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

    def conclude(self, seq: int, t: int, status: str) -> None:
        super().conclude(seq, t, status)
        self.has_ended = True
        if self.last.op == "calling":
            self.told(seq)

    def shown_title(self) -> str:
        return super().shown_title() or gettext("Mockup")

    def content(self) -> str:
        has_failed = self.has_ended and self.last.op == "calling"
        icon, word, tone = _NEVER_CAME if has_failed else _MOCKUP_STATES[self.last.op]
        saved = (self.last.successful_paths or [])[:SHOWN_ENTRIES]
        shown = islice(self.files.items(), SHOWN_ENTRIES)
        return fill(
            "mockup",
            title=self.shown_title(),
            icon=icon,
            word=gettext(word),
            tone=tone,
            files=[self._file(path, file) for path, file in shown],
            count=len(self.files),
            is_whole=self.is_whole,
            more=more_note(len(self.files) - SHOWN_ENTRIES),
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


class AskCard(Card):
    """A question of the model. The page, not the stream, adds the form for the reply."""

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
            call=call_in(members_of(event)),
            options=[_option(option) for option in event.options[:SHOWN_ENTRIES]],
            more_options=more_note(len(event.options) - SHOWN_ENTRIES),
            fields=[_option(field) for field in event.fields[:SHOWN_ENTRIES]],
            more_fields=more_note(len(event.fields) - SHOWN_ENTRIES),
            multi_select=event.multi_select,
            free_text=event.allow_free_text,
        )


def _option(option: Json) -> dict[str, str]:
    """Label and description of an option or field, which dialects send as text or object."""
    if not isinstance(option, dict):
        return {"label": name_of(str(option)), "help": ""}
    label = next(
        (option[key] for key in ("label", "title", "name", "value", "id") if key in option), ""
    )
    return {
        "label": name_of(str(label)) or name_of(pretty(option)),
        "help": name_of(str(option.get("description") or "")),
    }


class SettledCard(Card):
    """The outcome of a question of the previous run. Pages that show the question show its outcome there and
    hide this line."""

    classes = "item line given"

    def __init__(self, id: str, seq: int, event: ActivityStep) -> None:
        super().__init__(id, seq)
        self._event = event

    def content(self) -> str:
        return fill("settled", label=name_of(self._event.label or self._event.step))


class Generic(Card):
    """An item of an unknown kind: its name and all its data."""

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
        return fill(
            "fork",
            name=name,
            messages=messages,
            messages_shown=figures.count(messages or 0),
        )


# Further choices of an answer.


class AlternativeEntry(Entry):
    """A further choice of the same answer, with its own items. One choice is visible at a time."""

    def __init__(self, id: str, seq: int, choice: int) -> None:
        super().__init__(id, seq)
        self._choice = choice
        self.items = Stack(f"{id}-items", seq, classes="items")
        self.hold(self.items)

    def frame(self, contents: list[SafeString]) -> str:
        return fill(
            "alternative",
            id=self.id,
            choice=self._choice,
            number=self._choice + 1,
            items=contents[0],
        )

    def conclude(self, seq: int, t: int, status: str) -> None:
        for item in list(self.items.children):
            if isinstance(item, Entry | Card):
                item.conclude(seq, t, status)


class Choice(Part):
    """The button with which a reader selects a choice. It never changes."""

    def __init__(self, id: str, seq: int, choice: int) -> None:
        super().__init__(f"{id}-choice{choice}", seq)
        self._group = f"{id}-choice"
        self._choice = choice

    def html(self) -> str:
        return fill(
            "choice",
            id=self.id,
            group=self._group,
            choice=self._choice,
            number=self._choice + 1,
            is_first=self._choice == 0,
        )


ITEM_KINDS: dict[str, type[Text] | type[ToolEntry] | type[Media]] = {
    "message": Text,
    "reasoning": Reasoning,
    "refusal": Refusal,
    "tool_call": ToolEntry,
    "invalid_tool_call": ToolEntry,
    "media": Media,
}
