"""The chunks of chat completions."""

import secrets
import time
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from chat.demo.apis.base import DemoState
from chat.demo.apis.openai.requests import error_of
from chat.demo.encoder import (
    ERROR_TEXT,
    Encoder,
    Item,
    interleave,
    paired,
    tokens,
)
from chat.demo.requests import DemoRequest, JsonObject, object_in
from chat.demo.scenes import Call, Ending, Scene, TextKind
from chat.demo.script import OPENAI_DONE, openai_chunk

MEMBERS: Mapping[TextKind, str] = {
    "reasoning": "reasoning_content",
    "message": "content",
    "refusal": "refusal",
}
LOAD_SECONDS = 2.0
# While a prompt is processed a comment says that the connection lives.
COMMENT_SECONDS = 1.0


class ChatEncoder(Encoder):
    """One answer, or several that alternate, from the role to the finish reason."""

    done = OPENAI_DONE
    opening = b""
    heartbeat = b": waiting\n\n"

    def __init__(
        self,
        asked: DemoRequest,
        scene: Scene,
        state: DemoState,
        *,
        first: "ChatEncoder | None" = None,
        index: int = 0,
    ) -> None:
        super().__init__(asked, scene)
        self._state = state
        self._index = index
        self._id = first._id if first else f"chatcmpl-{secrets.token_hex(12)}"
        self._created = first._created if first else int(time.time())
        self._others: list[ChatEncoder] = []

    @property
    def includes_usage(self) -> bool:
        return object_in(self.asked.body, "stream_options").get("include_usage") is True

    def frame(self, event: JsonObject) -> bytes:
        return openai_chunk(event)

    def events(self) -> Iterator[Item]:
        if self.opening:
            yield self.opening
        for item in self.plain_events():
            if isinstance(item, dict):
                yield from self.dress(item)
            else:
                yield item

    def dress(self, event: JsonObject) -> Iterator[Item]:
        """The event as a particular vendor sends it."""
        yield event

    def plain_events(self) -> Iterator[Item]:
        yield from self.begin()
        self._others = [self._other(index) for index in range(1, self.asked.body.get("n", 1))]
        yield from interleave([self.perform(), *(other.perform() for other in self._others)])
        if self.includes_usage and not self.has_failed:
            yield {**self.chunk({}), "choices": [], "usage": self.usage()}

    def _other(self, index: int) -> "ChatEncoder":
        """Another answer to the same question, as a part of this one."""
        scene = alternative(self.scene, index)
        return type(self)(self.asked, scene, self._state, first=self, index=index)

    def begin(self) -> Iterator[Item]:
        """Load the model and process the prompt: on this API, nothing but time and comments."""
        seconds = self.scene.prompt_seconds
        if self.scene.reloads_model or self.asked.model not in self._state.loaded_models:
            self._state.loaded_models.add(self.asked.model)
            seconds += LOAD_SECONDS
        while seconds > 0:
            yield self.pause(min(seconds, COMMENT_SECONDS))
            seconds -= COMMENT_SECONDS
            if seconds > 0:
                yield self.heartbeat

    def perform(self) -> Iterator[Item]:
        yield self.chunk({"role": "assistant", "content": ""})
        yield from super().perform()

    def token(self, kind: TextKind, text: str) -> Iterator[Item]:
        chunk = self.chunk({MEMBERS[kind]: text})
        if self.asked.body.get("logprobs") and kind == "message":
            entry = likelihood(text, self.asked.body.get("top_logprobs") or 0)
            chunk["choices"][0]["logprobs"] = {"content": [entry], "refusal": None}
        yield chunk

    def event(self, name: str, data: JsonObject) -> Iterator[Item]:
        yield self.chunk(data)

    def fail(self, ending: Ending) -> Iterator[Item]:
        yield {"error": error_of(ERROR_TEXT, "server_error", code="generation_failed")}

    def end(self) -> Iterator[Item]:
        if self.calls and not self.reason:
            self.reason = "tool_calls"
            yield from self.call_chunks()
        yield self.chunk({}, finish_reason=self.reason or "stop")

    def call_chunks(self) -> Iterator[Item]:
        """All calls at once, their fragments interleaved, as models with parallel calls send them."""
        rows = zip_longest(*(_fragments(index, call) for index, call in enumerate(self.calls)))
        for fragment in (fragment for row in rows for fragment in row if fragment):
            yield self.pause(1 / self.tokens_per_second)
            self.tokens += 1
            yield self.chunk({"tool_calls": [fragment]})

    def chunk(self, delta: JsonObject, *, finish_reason: str | None = None) -> JsonObject:
        chunk: JsonObject = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self.asked.model,
            "system_fingerprint": self.asked.model,
            "choices": [
                {
                    "index": self._index,
                    "delta": delta,
                    "logprobs": None,
                    "finish_reason": finish_reason,
                }
            ],
        }
        return {**chunk, "usage": None} if self.includes_usage else chunk

    def usage(self) -> JsonObject:
        encoders = [self, *self._others]
        tokens_said = sum(encoder.tokens for encoder in encoders)
        return {
            "prompt_tokens": self.asked.input_tokens,
            "completion_tokens": tokens_said,
            "total_tokens": self.asked.input_tokens + tokens_said,
            "completion_tokens_details": {
                "reasoning_tokens": sum(encoder.reasoning_tokens for encoder in encoders)
            },
        }

    def whole(self) -> tuple[int, JsonObject]:
        choices: dict[int, JsonObject] = {}
        last: JsonObject = {}
        for chunk in (item for item in self.plain_events() if isinstance(item, dict)):
            if "error" in chunk:
                return 500, chunk
            last = chunk if chunk["choices"] else last
            for piece in chunk["choices"]:
                _gather(piece, choices)
        found = [_whole_choice(choice) for _, choice in sorted(choices.items())]
        return 200, {**last, "object": "chat.completion", "choices": found, "usage": self.usage()}


def alternative(scene: Scene, index: int) -> Scene:
    """The same answer, told apart from the first one by its beginning."""
    return scene.with_first_message(f"*Another answer, number {index + 1}.* ")


def _fragments(index: int, call: Call) -> list[JsonObject]:
    """The first fragment names the call; the others carry its arguments in pieces."""
    function = {"name": call.tool, "arguments": ""}
    identity = f"call_{secrets.token_hex(12)}"
    first = {"index": index, "id": identity, "type": "function", "function": function}
    rest = ({"index": index, "function": {"arguments": piece}} for piece in tokens(call.written))
    return [first, *rest]


_OTHERS = (" report", " meeting", " week", " office", " plan")


def likelihood(token: str, others: int) -> JsonObject:
    """Log probabilities of one token; figures that look real, the same for the same token."""
    logprob = -round((sum(token.encode("utf-8", "surrogatepass")) % 97 + 1) / 40, 4)
    rivals = (token, *(f"{word}{end}" for end in ("", "s", "ing", "ly") for word in _OTHERS))
    top = [_entry(rival, logprob - number) for number, rival in enumerate(rivals[:others])]
    return {**_entry(token, logprob), "top_logprobs": top}


def _entry(token: str, logprob: float) -> JsonObject:
    encoded = list(token.encode("utf-8", "surrogatepass"))
    return {"token": token, "logprob": round(logprob, 4), "bytes": encoded}


# --- the whole completion in one object ---------------------------------------------------------


def _gather(piece: JsonObject, choices: dict[int, JsonObject]) -> None:
    """Adds what one chunk says of a choice to what there is of it."""
    fresh: JsonObject = {
        "index": piece["index"],
        "message": {"role": "assistant", "content": ""},
        "logprobs": None,
        "calls": {},
    }
    choice = choices.setdefault(piece["index"], fresh)
    choice["finish_reason"] = piece["finish_reason"]
    if piece["logprobs"]:
        known = choice["logprobs"]["content"] if choice["logprobs"] else []
        content = [*known, *piece["logprobs"]["content"]]
        choice["logprobs"] = {**piece["logprobs"], "content": content}
    _add_delta(piece["delta"], choice["message"], choice["calls"])


def _add_delta(delta: JsonObject, message: JsonObject, calls: dict[int, Any]) -> None:
    for name in MEMBERS.values():
        if delta.get(name):
            message[name] = message.get(name, "") + delta[name]
    for fragment in delta.get("tool_calls", ()):
        call = calls.get(fragment["index"])
        if call is None:
            function = dict(fragment["function"])
            calls[fragment["index"]] = {
                "id": fragment["id"],
                "type": "function",
                "function": function,
            }
        else:
            call["function"]["arguments"] += fragment["function"]["arguments"]


def _whole_choice(choice: JsonObject) -> JsonObject:
    message = {name: paired(text) for name, text in choice["message"].items()}
    if choice["calls"]:
        message["tool_calls"] = list(choice["calls"].values())
    kept = {name: value for name, value in choice.items() if name != "calls"}
    return {**kept, "message": message}
