"""Chat completions as OpenAI streams them: tools of the client, alternatives, log probabilities."""

import secrets
import time
from collections.abc import Iterator, Mapping
from itertools import zip_longest

from chat.demo.encoder import (
    ERROR_TEXT,
    Encoder,
    Item,
    interleave,
    tokens,
)
from chat.demo.frames import OPENAI_DONE, openai_chunk
from chat.demo.requests import DemoRequest, DemoState, JsonObject
from chat.demo.scenes import Call, Ending, Scene, TextKind

MEMBERS: Mapping[TextKind, str] = {
    "reasoning": "reasoning_content",
    "message": "content",
    "refusal": "refusal",
}
LOAD_SECONDS = 2.0
HEARTBEAT = b": waiting\n\n"
HEARTBEAT_SECONDS = 1.0
MOST_ANSWERS = 8


class ChatEncoder(Encoder):
    """One answer, or several that alternate, from the role to the finish reason."""

    done = OPENAI_DONE

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

    def frame(self, event: JsonObject) -> bytes:
        return openai_chunk(event)

    def events(self) -> Iterator[Item]:
        yield from self.begin_answer()
        self._others = [self._other(index) for index in range(1, self._count())]
        yield from interleave([self.perform(), *(other.perform() for other in self._others)])
        if not self.has_failed:
            yield {**self.chunk({}), "choices": [], "usage": self.usage()}

    def _count(self) -> int:
        number = self.asked.body.get("n")
        return min(number, MOST_ANSWERS) if isinstance(number, int) else 1

    def _other(self, index: int) -> "ChatEncoder":
        """Another answer to the same question, which this one includes."""
        scene = self.scene.with_first_message(f"*Another answer, number {index + 1}.* ")
        return type(self)(self.asked, scene, self._state, first=self, index=index)

    def begin_answer(self) -> Iterator[Item]:
        """Loading of the model and processing of the prompt: on this API, only time and
        comments."""
        seconds = self.scene.prompt_seconds
        if self.scene.reloads_model or self.asked.model not in self._state.loaded_models:
            self._state.loaded_models.add(self.asked.model)
            seconds += LOAD_SECONDS
        yield from self.wait(seconds, HEARTBEAT, HEARTBEAT_SECONDS)

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
        yield {
            "error": {"message": ERROR_TEXT, "type": "server_error", "code": "generation_failed"}
        }

    def end_answer(self) -> Iterator[Item]:
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
        choice = {"index": self._index, "delta": delta, "logprobs": None}
        return {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self.asked.model,
            "system_fingerprint": self.asked.model,
            "choices": [{**choice, "finish_reason": finish_reason}],
        }

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
