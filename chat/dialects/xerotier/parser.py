"""Xerotier's stream: chat completions with ``x_*`` events between the chunks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from chat.dialects.errors import error_of
from chat.dialects.openai.usage import read_usage
from chat.dialects.openai_chat.parser import OpenAiChatParser
from chat.dialects.parameters import Values
from chat.dialects.stream import objects_of, text_of
from chat.dialects.xerotier.activity import RULES, Timeline, family_of, unknown_rule
from chat.dialects.xerotier.fields import (
    PENDING_STATE,
    Members,
    calls_of,
    camel,
    count_in,
    entries_of,
    error_message,
    is_calls,
    is_entries,
    is_flag,
    is_object,
    is_objects,
    is_texts,
    text_in,
    texts_in,
    texts_of,
    value_of,
)
from chat.events import (
    ArtifactUpdate,
    AskQuestion,
    ContextFork,
    Ending,
    Json,
    JsonObject,
    MockupUpdate,
    ReplayData,
    Stop,
    Usage,
)
from chat.events.translation import gettext_noop

_MOCKUP_OPS: Mapping[str, Literal["calling", "created", "updated", "error"]] = {
    "x_mockup.calling": "calling",
    "x_mockup.created": "created",
    "x_mockup.updated": "updated",
    "x_mockup.error": "error",
}

AGENT_FAILED = gettext_noop("The server’s deep think agent failed.")


@dataclass(slots=True)
class _PendingState:
    """The text and calls before the answer stopped to ask; calls by their ids."""

    content: str | None = None
    calls: dict[str, JsonObject] = field(default_factory=dict)


class XerotierParser(OpenAiChatParser):
    """Two tables say what ``x_*`` events mean: ``RULES`` for steps of an agent, ``EVENTS`` for
    everything else. Events in neither are kept as ``vendor.raw``."""

    def __init__(self, *, dialect: str, model: str, endpoint: str, options: Values) -> None:
        super().__init__(dialect=dialect, model=model, endpoint=endpoint, options=options)
        self._timeline = Timeline(self.tracker.emit)
        self._asks: list[AskQuestion] = []
        self._pending: _PendingState | None = None
        # The mockup that was announced and has no bundle yet.
        self._announced: str | None = None
        self._agent_error = ""
        self._chunk_usage: Usage | None = None
        self._whole_usage: Usage | None = None
        self._starts_unnamed = False

    # --- x_* events -------------------------------------------------------------------

    def on_extension(self, name: str, data: JsonObject) -> None:
        self._starts_unnamed = self._starts_unnamed or not self._facts
        event = EVENTS.get(name)
        if event is not None:
            event.handle(self, name, data)
            self._keep_others(name, data, event.members)
            return
        if name == "x_deep_think.error":
            self._agent_error = error_message(data) or AGENT_FAILED
        family = family_of(name)
        if family:
            self._timeline.report(family, RULES.get(name) or unknown_rule(name), data)
        if name not in RULES:
            self.raw(name, data=data)

    def _keep_others(self, name: str, data: JsonObject, known: Members) -> None:
        """Keeps members that are not read, or have another type than expected."""
        for member, value in data.items():
            fits = known.get(member)
            if member != "type" and value is not None and not (fits and fits(value)):
                self.unknown_member(name, member, value)

    def on_late(self, data: JsonObject) -> None:
        if text_of(data, "type") == "x_chat.metadata":
            self._note_whole_usage(data.get("usage"))
        elif not text_of(data, "type").startswith("x_"):
            super().on_late(data)

    def _on_agent_artifact(self, name: str, data: JsonObject) -> None:
        if text_in(data, "content") is None or not self._take_artifact("created", data):
            self._timeline.report("deep_think", RULES[name], data)

    # --- artifacts and mockups ------------------------------------------------------------

    def _on_artifact(self, name: str, data: JsonObject) -> None:
        op: Literal["created", "updated"] = "updated" if name.endswith("updated") else "created"
        if not self._take_artifact(op, data):
            self.raw(name, data=data)

    def _take_artifact(self, op: Literal["created", "updated"], data: JsonObject) -> bool:
        """Returns whether the artifact could be identified."""
        identifier = text_in(data, "identifier")
        identity = text_in(data, "artifact_id") or identifier
        if not identity:
            return False
        self.tracker.emit(
            ArtifactUpdate(
                op=op,
                artifact_id=identity,
                identifier=identifier,
                title=text_in(data, "title"),
                language=text_in(data, "language"),
                content_type=text_in(data, "content_type"),
                content=text_in(data, "content"),
            )
        )
        return True

    def _on_mockup(self, name: str, data: JsonObject) -> None:
        """An error may name no mockup; then it is about the one that was announced last."""
        op = _MOCKUP_OPS[name]
        bundle = text_in(data, "bundle_id")
        identifier = text_in(data, "identifier")
        if op == "error" and not bundle and not identifier:
            identifier = self._announced
        self._announced = identifier if op == "calling" else None
        self.tracker.emit(
            MockupUpdate(
                op=op,
                bundle_id=bundle,
                identifier=identifier,
                title=text_in(data, "title"),
                entry=text_in(data, "entry"),
                files=objects_of(data, "files") if "files" in data else None,
                changed=texts_in(data, "changed"),
                deleted=texts_in(data, "deleted"),
                code=text_in(data, "code"),
                message=text_in(data, "message"),
                successful_paths=texts_in(data, "successful_paths"),
                failed_path=text_in(data, "failed_path"),
            )
        )

    # --- questions ---------------------------------------------------------------------------

    def _on_question(self, name: str, data: JsonObject) -> None:
        call_id = text_in(data, "tool_call_id") or None
        options = entries_of(data.get("options"))
        fields = entries_of(data.get("fields"))
        free_text = value_of(data, "allow_free_text")
        ask = AskQuestion(
            ask_id=text_in(data, "ask_user_id") or call_id or f"ask-{len(self._asks) + 1}",
            question=text_in(data, "question") or "",
            options=options,
            # A question without anything else to choose could not be answered at all.
            allow_free_text=free_text is True or not (options or fields),
            multi_select=value_of(data, "multi_select") is True,
            style=text_in(data, "style") or None,
            fields=fields,
            call_id=call_id,
        )
        self._asks.append(ask)
        self.tracker.emit(ask)

    def _on_pending_state(self, name: str, data: JsonObject) -> None:
        """Data for the request that continues; a later state of the same answer adds its calls."""
        content = text_in(data, "assistant_content")
        calls = calls_of(value_of(data, "tool_calls"))
        state = self._pending = self._pending or _PendingState()
        state.content = content or state.content
        for call in calls:
            # A call without an id is always a new one.
            state.calls[text_of(call, "id") or f"call_{len(state.calls)}"] = call
        ask = self._asks[-1] if self._asks else None
        self.tracker.emit(
            ReplayData(
                kind="pending_state",
                data={"assistantContent": content, "toolCalls": calls},
                call_id=ask.call_id if ask else None,
            )
        )

    def native_turn(self) -> JsonObject | None:
        """Includes the data that a waiting answer must send back; the request removes it again."""
        native = super().native_turn()
        if self._pending is None:
            return native
        state = {
            "assistantContent": self._pending.content,
            "toolCalls": list(self._pending.calls.values()),
        }
        return {**(native or {"role": "assistant", "content": None}), PENDING_STATE: state}

    # --- facts about the answer ------------------------------------------------------------------

    def _on_fork(self, name: str, data: JsonObject) -> None:
        branch = text_in(data, "branch_id")
        if not branch:
            self.raw(name, data=data)
            return
        self.tracker.emit(
            ContextFork(
                branch_id=branch,
                branch_name=text_in(data, "branch_name"),
                message_count=count_in(data, "message_count"),
            )
        )

    def _on_metadata(self, name: str, data: JsonObject) -> None:
        values = {
            "message_id": value_of(data, "message_id"),
            "user_message_id": value_of(data, "user_message_id"),
            "sequence": data.get("sequence"),
            "context_budget": data.get("context"),
        }
        self.meta({member: value for member, value in values.items() if value is not None})
        self._note_whole_usage(data.get("usage"))
        self._report_usage(is_final=False)

    def _note_whole_usage(self, value: Json) -> None:
        """The counts of ``x_chat.metadata`` include the cost of research."""
        if isinstance(value, dict) and value:
            self._whole_usage = read_usage(value)
            self._join_usage()

    def _note_usage(self, value: Json) -> None:
        super()._note_usage(value)
        if isinstance(value, dict) and value:
            self._chunk_usage = self._usage
            self._join_usage()

    def _join_usage(self) -> None:
        """The chunks' counts stay; the others are added in ``raw``."""
        chunk, whole = self._chunk_usage, self._whole_usage
        if whole is None:
            return
        raw = {"x_chat.metadata": whole.raw}
        if chunk is not None:
            raw = {"chat.completion.chunk": chunk.raw, **raw}
        self._usage = msgspec.structs.replace(chunk or whole, raw=raw)

    def _note_facts(self, data: JsonObject) -> None:
        """If an ``x_*`` event came first, ``chat.start`` could not name the model."""
        is_first = not self._facts
        super()._note_facts(data)
        model = text_of(data, "model")
        if is_first and self._starts_unnamed and model and model != self.model:
            self.meta({"model": model})

    # --- the end ------------------------------------------------------------------------------------

    def natural_ending(self) -> Ending | None:
        if self._agent_error and not self._has_finished():
            self.fail(error_of("server", self._agent_error))
            return None
        if self._asks and (self.is_done or self._has_finished()):
            if not self.is_done:
                self.meta({"no_done": True})
            choice = self._first_choice()
            raw = choice.finish_reason if choice else None
            return Ending(status="waiting", stop=Stop(reason="ask", raw=raw))
        return super().natural_ending()

    def on_close(self, *, is_complete: bool) -> None:
        self._timeline.close(is_complete=is_complete)
        super().on_close(is_complete=is_complete)


# --- the other events, by name ------------------------------------------------------------------

Handler = Callable[[XerotierParser, str, JsonObject], None]


@dataclass(frozen=True, slots=True)
class EventRule:
    """``members`` are those that the handler reads, in both spellings; others are kept
    separately."""

    handle: Handler
    members: Members


def _reads(handle: Handler, members: Members) -> EventRule:
    both = {spelling: fits for name, fits in members.items() for spelling in (name, camel(name))}
    return EventRule(handle, both)


_ARTIFACT = texts_of("artifact_id", "identifier", "title", "language", "content_type", "content")
_MOCKUP: Members = {
    **texts_of("bundle_id", "identifier", "title", "entry", "code", "message", "failed_path"),
    "files": is_objects,
    "changed": is_texts,
    "deleted": is_texts,
    "successful_paths": is_texts,
}
_QUESTION: Members = {
    **texts_of("ask_user_id", "question", "style", "tool_call_id"),
    "options": is_entries,
    "fields": is_entries,
    "allow_free_text": is_flag,
    "multi_select": is_flag,
}
_PENDING: Members = {**texts_of("assistant_content"), "tool_calls": is_calls}
_FORK: Members = texts_of("branch_id", "branch_name", "message_count")
_METADATA: Members = {
    **texts_of("message_id", "user_message_id", "sequence"),
    "context": is_object,
    "usage": is_object,
}

EVENTS: Mapping[str, EventRule] = {
    "x_deep_think.artifact_created": _reads(XerotierParser._on_agent_artifact, _ARTIFACT),
    "x_artifact.created": _reads(XerotierParser._on_artifact, _ARTIFACT),
    "x_artifact.updated": _reads(XerotierParser._on_artifact, _ARTIFACT),
    **{name: _reads(XerotierParser._on_mockup, _MOCKUP) for name in _MOCKUP_OPS},
    "x_ask_user.question": _reads(XerotierParser._on_question, _QUESTION),
    "x_ask_user.pending_state": _reads(XerotierParser._on_pending_state, _PENDING),
    "x_context_fork": _reads(XerotierParser._on_fork, _FORK),
    "x_chat.metadata": _reads(XerotierParser._on_metadata, _METADATA),
}
