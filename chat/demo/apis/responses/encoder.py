"""The events of one answer, as the Responses API streams them."""

import re
import secrets
import time
from collections.abc import Iterator

from chat.demo.apis.base import DemoState
from chat.demo.apis.responses.requests import seal
from chat.demo.encoder import ERROR_TEXT, Encoder, Item, tokens
from chat.demo.requests import DemoRequest, JsonObject, StoredAnswer, object_in
from chat.demo.scenes import Call, Ending, Scene, TextKind

QUEUE_SECONDS = 1.5
# Shows what it thinks; the other models show summaries of it.
OPEN_MODEL = "tributary/demo-agent-open"
_PADDING = "0123456789abcdef"
_QUEUE = re.compile(r"\b(queue[sd]?|background)\b", re.IGNORECASE)
# Of each kind of text: the type of its part, the member that holds the text, and its events.
_PARTS: dict[TextKind, tuple[str, str]] = {
    "message": ("output_text", "text"),
    "refusal": ("refusal", "refusal"),
}


class ResponsesEncoder(Encoder):
    """Numbers the events and collects the items; the last event holds the whole response."""

    def __init__(self, asked: DemoRequest, scene: Scene, state: DemoState) -> None:
        super().__init__(asked, scene)
        self._state = state
        self._id = _new_id("resp")
        self._created = int(time.time())
        self._number = 0
        self._output: list[JsonObject] = []
        self._item: JsonObject = {}
        self._summary: list[JsonObject] = []
        self._is_queued = bool(_QUEUE.search(asked.text))
        options = object_in(asked.body, "stream_options")
        self._is_padded = options.get("include_obfuscation", True) is not False
        include = asked.body.get("include") or []
        self._wants_encrypted = "reasoning.encrypted_content" in include

    def begin(self) -> Iterator[Item]:
        begun = "queued" if self._is_queued else "in_progress"
        yield self._event("response.created", response=self._response(begun))
        if self._is_queued:
            yield self._event("response.queued", response=self._response(begun))
            yield self.pause(QUEUE_SECONDS)
        yield self._event("response.in_progress", response=self._response("in_progress"))
        yield self.pause(self.scene.prompt_seconds)

    # --- texts -----------------------------------------------------------------------------------

    def open(self, kind: TextKind) -> Iterator[Item]:
        if kind == "reasoning":
            yield from self._open_thought()
            return
        self._item = {"id": _new_id("msg"), "type": "message", "role": "assistant"}
        yield self._added({**self._item, "status": "in_progress", "content": []})
        yield self._about("content_part.added", content_index=0, part=_part(kind, ""))

    def token(self, kind: TextKind, text: str) -> Iterator[Item]:
        if kind == "message":
            yield self._delta("output_text", text, content_index=0, logprobs=[])
        elif kind == "refusal":
            yield self._delta("refusal", text, content_index=0)
        elif self.asked.model == OPEN_MODEL:
            yield self._delta("reasoning_text", text, content_index=0)
        else:
            yield self._delta("reasoning_summary_text", text, summary_index=0)

    def close(self, kind: TextKind, text: str) -> Iterator[Item]:
        if kind == "reasoning":
            yield from self._close_thought(text)
            return
        part_type, member = _PARTS[kind]
        further: JsonObject = {"logprobs": []} if kind == "message" else {}
        yield self._about(f"{part_type}.done", content_index=0, **{member: text}, **further)
        part = _part(kind, text)
        yield self._about("content_part.done", content_index=0, part=part)
        yield self._done({**self._item, "status": self._item_status, "content": [part]})

    def _open_thought(self) -> Iterator[Item]:
        """Servers of open models send the thought itself, the others a summary."""
        self._item = {"id": _new_id("rs"), "type": "reasoning", "summary": []}
        if self.asked.model == OPEN_MODEL:
            yield self._added({**self._item, "content": [], "status": "in_progress"})
            part = {"type": "reasoning_text", "text": ""}
            yield self._about("content_part.added", content_index=0, part=part)
            return
        sealed = {"encrypted_content": ""} if self._wants_encrypted else {}
        yield self._added({**self._item, **sealed})
        part = {"type": "summary_text", "text": ""}
        yield self._about("reasoning_summary_part.added", part=part, summary_index=0)

    def _close_thought(self, text: str) -> Iterator[Item]:
        if self.asked.model == OPEN_MODEL:
            part = {"type": "reasoning_text", "text": text}
            yield self._about("reasoning_text.done", content_index=0, text=text)
            yield self._about("content_part.done", content_index=0, part=part)
            yield self._done({**self._item, "content": [part], "status": self._item_status})
            return
        part = {"type": "summary_text", "text": text}
        yield self._about("reasoning_summary_text.done", text=text, summary_index=0)
        yield self._about("reasoning_summary_part.done", part=part, summary_index=0)
        sealed = {"encrypted_content": seal(text)} if self._wants_encrypted else {}
        yield self._done({**self._item, "summary": [part], **sealed})

    # --- calls, and what scenes hold -------------------------------------------------------------------

    def call(self, call: Call) -> Iterator[Item]:
        self._item = {
            "id": _new_id("fc"),
            "type": "function_call",
            "status": "in_progress",
            "arguments": "",
            "call_id": _new_id("call")[:29],
            "name": call.tool,
        }
        yield self._added(self._item)
        for piece in tokens(call.written):
            yield self.pause(1 / self.tokens_per_second)
            self.tokens += 1
            yield self._delta("function_call_arguments", piece)
        whole = {"arguments": call.written, "name": call.tool}
        yield self._about("function_call_arguments.done", **whole)
        yield self._done({**self._item, "status": "completed", "arguments": call.written})

    def event(self, name: str, data: JsonObject) -> Iterator[Item]:
        yield self._event(name, output_index=len(self._output), **data)
        if name == "response.output_item.done":
            self._output.append(data["item"])

    # --- the end -----------------------------------------------------------------------------------------

    def fail(self, ending: Ending) -> Iterator[Item]:
        error = {"code": "server_error", "message": ERROR_TEXT}
        self._close_with("failed", error=error, usage=None)
        return iter(())

    def end(self) -> Iterator[Item]:
        if not self.reason:
            self._store()
            self._close_with("completed")
            return iter(())
        self._store()
        reason = {"length": "max_output_tokens"}.get(self.reason, self.reason)
        self._close_with("incomplete", incomplete_details={"reason": reason})
        return iter(())

    def _close_with(self, status: str, **members: object) -> None:
        usage = self._usage()
        whole = {"output": list(self._output), "usage": usage, **members}
        self.closing = self._event(f"response.{status}", response=self._response(status, **whole))

    def _store(self) -> None:
        if self.asked.body.get("store", True) is False:
            return
        waiting = [item["call_id"] for item in self._output if item["type"] == "function_call"]
        asked = [item for item in self._output if item["type"] == "mcp_approval_request"]
        stored = StoredAnswer(
            turn=self.asked.turn,
            question=self.asked.text[:200],
            tokens=self.asked.input_tokens + self.tokens,
            calls=tuple(waiting),
            approvals={item["id"]: item for item in asked},
        )
        self._state.answers.put(self._id, stored)

    def _usage(self) -> JsonObject:
        return {
            "input_tokens": self.asked.input_tokens,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": self.tokens,
            "output_tokens_details": {"reasoning_tokens": self.reasoning_tokens},
            "total_tokens": self.asked.input_tokens + self.tokens,
        }

    def whole(self) -> tuple[int, JsonObject]:
        """What the last event carries, whatever its status."""
        *_, last = self.only_events()
        return 200, last["response"]

    # --- events --------------------------------------------------------------------------------------------

    @property
    def _item_status(self) -> str:
        return "incomplete" if self.reason else "completed"

    def _event(self, name: str, /, **members: object) -> JsonObject:
        event: JsonObject = {"type": name, "sequence_number": self._number, **members}
        self._number += 1
        return event

    def _added(self, item: JsonObject) -> JsonObject:
        index = len(self._output)
        return self._event("response.output_item.added", output_index=index, item=dict(item))

    def _done(self, item: JsonObject) -> JsonObject:
        index = len(self._output)
        self._output.append(item)
        return self._event("response.output_item.done", output_index=index, item=dict(item))

    def _about(self, name: str, /, **members: object) -> JsonObject:
        place = {"item_id": self._item["id"], "output_index": len(self._output)}
        return self._event(f"response.{name}", **place, **members)

    def _delta(self, name: str, text: str, **members: object) -> JsonObject:
        """A piece of text. Padding hides how long it is."""
        event = self._about(f"{name}.delta", delta=text, **members)
        if self._is_padded:
            event["obfuscation"] = (_PADDING * 2)[: max(0, 16 - len(text))]
        return event

    def _response(self, status: str, **members: object) -> JsonObject:
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "background": self._is_queued,
            "error": None,
            "incomplete_details": None,
            "model": self.asked.model,
            "output": [],
            "service_tier": "default",
            "usage": None,
            "user": None,
            "metadata": {},
            **_echo(self.asked.body),
            **members,
        }


def _part(kind: TextKind, text: str) -> JsonObject:
    if kind == "refusal":
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def _new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(24)}"


def _echo(body: JsonObject) -> JsonObject:
    """Members of the request that come back in every response object."""
    reasoning = object_in(body, "reasoning")
    return {
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "previous_response_id": body.get("previous_response_id"),
        "reasoning": {
            "effort": reasoning.get("effort", "medium"),
            "summary": reasoning.get("summary") or "auto",
        },
        "store": body.get("store", True),
        "temperature": body.get("temperature", 1.0),
        "text": body.get("text") or {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools") or [],
        "top_p": body.get("top_p", 1.0),
        "truncation": body.get("truncation", "disabled"),
    }
