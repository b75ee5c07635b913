"""Scripted answers: what the fake does with the next requests, and builders of common streams."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from chat.demo.frames import (
    OPENAI_DONE,
    STREAM_HEADERS,
    json_bytes,
    lmstudio_event,
    openai_chunk,
)

JsonObject = dict[str, Any]


class ScriptStep(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="step", forbid_unknown_fields=True
):
    """One thing to do. Bytes are ``text`` followed by ``base64``, wherever a step has them."""


class Bytes(ScriptStep, frozen=True, kw_only=True):
    text: str = ""
    base64: bytes = b""

    @property
    def data(self) -> bytes:
        return self.text.encode() + self.base64


class Head(ScriptStep, tag="head", frozen=True, kw_only=True):
    """The status line and headers. Without this step a 200 event stream goes before the first bytes.

    ``length`` is what ``Content-Length`` claims where the framing is by length; it may be a lie.
    """

    status: int = 200
    headers: dict[str, str] = msgspec.field(default_factory=lambda: dict(STREAM_HEADERS))
    framing: Literal["chunked", "length", "close"] = "chunked"
    length: int = 0


class Send(Bytes, tag="send", frozen=True, kw_only=True):
    """A piece of the body: in one write, or in writes of ``split_bytes``."""

    split_bytes: int = 0

    @property
    def pieces(self) -> list[bytes]:
        data = self.data
        step = self.split_bytes or len(data) or 1
        return [data[start : start + step] for start in range(0, len(data), step)]


class Raw(Bytes, tag="raw", frozen=True, kw_only=True):
    """Bytes outside of all framing: a broken head, a bad chunk size, a trailer."""


class Pause(ScriptStep, tag="pause", frozen=True, kw_only=True):
    """Real seconds, whatever the speed of the demo."""

    seconds: float


class Gate(ScriptStep, tag="gate", frozen=True, kw_only=True):
    """Wait until the test releases ``name``. A release that came first counts."""

    name: str


class Flood(Bytes, tag="flood", frozen=True, kw_only=True):
    """The same bytes again and again: ``times`` times, or until the client leaves."""

    times: int = 0


class Hang(ScriptStep, tag="hang", frozen=True, kw_only=True):
    """Nothing more until the client leaves: an open socket after the end, or no answer at all."""


class Close(ScriptStep, tag="close", frozen=True, kw_only=True):
    """Close the connection here, complete or not."""


class Reset(ScriptStep, tag="reset", frozen=True, kw_only=True):
    """End the connection with a TCP reset."""


AnyStep = Head | Send | Raw | Pause | Gate | Flood | Hang | Close | Reset


class Script(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happens to the next ``times`` requests with this method and path (empty: any path).

    After the last step the answer is ended as HTTP wants it, unless a step ended it otherwise.
    """

    steps: tuple[AnyStep, ...]
    times: int = 1
    method: str = "POST"
    path: str = ""

    def fits(self, method: str, path: str) -> bool:
        return method == self.method and self.path in ("", path)


# --- scripts in one call ---------------------------------------------------------


def _bytes_of(data: bytes | str) -> bytes:
    return data.encode() if isinstance(data, str) else data


def _step_of(part: bytes | str | AnyStep, split_bytes: int) -> AnyStep:
    if isinstance(part, bytes | str):
        return Send(base64=_bytes_of(part), split_bytes=split_bytes)
    return part


def stream(
    *parts: bytes | str | AnyStep, split_bytes: int = 0, times: int = 1, path: str = ""
) -> Script:
    """An event stream of these bytes, with any steps in between."""
    steps = tuple(_step_of(part, split_bytes) for part in parts)
    return Script(steps=steps, times=times, path=path)


def cut(*parts: bytes | str | AnyStep, split_bytes: int = 0) -> Script:
    """A stream whose connection closes without the end of the body."""
    return stream(*parts, Close(), split_bytes=split_bytes)


def reset(*parts: bytes | str | AnyStep, split_bytes: int = 0) -> Script:
    """A stream whose connection is reset."""
    return stream(*parts, Reset(), split_bytes=split_bytes)


def held_open(*parts: bytes | str | AnyStep) -> Script:
    """A stream whose socket stays open after the last event."""
    return stream(*parts, Hang())


def never() -> Script:
    """A request that is accepted and never answered."""
    return stream(Hang())


def answer(
    body: bytes | str | Mapping[str, object] | Sequence[object],
    *,
    status: int = 200,
    content_type: str = "",
    headers: Mapping[str, str] | None = None,
    times: int = 1,
    method: str = "POST",
    path: str = "",
) -> Script:
    """A whole answer instead of a stream: text as HTML, bytes as they are, anything else as JSON."""
    guess = "text/html; charset=utf-8" if isinstance(body, bytes | str) else "application/json"
    data = _bytes_of(body) if isinstance(body, bytes | str) else json_bytes(body)
    head = Head(
        status=status,
        headers={"Content-Type": content_type or guess, **(headers or {})},
        framing="length",
        length=len(data),
    )
    return Script(steps=(head, Send(base64=data)), times=times, method=method, path=path)


def busy(*, times: int = 1, status: int = 429, retry_after: str = "1") -> Script:
    """Too many requests, ``times`` times; the request after them is served as usual."""
    error = {"message": "Too many requests", "type": "rate_limit_error", "code": "rate_limit"}
    return answer(
        {"error": error}, status=status, headers={"Retry-After": retry_after}, times=times
    )


def flood(data: bytes | str, *, times: int = 0) -> Script:
    return stream(Flood(base64=_bytes_of(data), times=times))


def endless_line() -> Script:
    """An event whose data line never ends."""
    return stream("data: ", Flood(text="x" * 65536))


# --- bytes of the two streams ----------------------------------------------------------


def lmstudio_events(events: Iterable[Mapping[str, Any]]) -> bytes:
    """An LM Studio stream: named events with their type in the data as well."""
    return b"".join(map(lmstudio_event, events))


def openai_chunks(chunks: Iterable[Mapping[str, Any]], *, is_done: bool = True) -> bytes:
    """A chat completions stream, with its ``[DONE]`` unless told otherwise."""
    return b"".join(map(openai_chunk, chunks)) + (OPENAI_DONE if is_done else b"")


def lmstudio_result(
    output: list[JsonObject],
    *,
    model: str = "test/model",
    response_id: str | None = "resp_" + "0" * 48,
    stats: Mapping[str, float] | None = None,
) -> JsonObject:
    result: JsonObject = {
        "model_instance_id": model,
        "output": output,
        "stats": {
            "input_tokens": 12,
            "total_output_tokens": 34,
            "reasoning_output_tokens": 0,
            "tokens_per_second": 56.7,
            "time_to_first_token_seconds": 0.25,
            **(stats or {}),
        },
    }
    if response_id:
        result["response_id"] = response_id
    return result


def lmstudio_run(
    *pieces: str,
    reasoning: Sequence[str] = (),
    model: str = "test/model",
    response_id: str | None = "resp_" + "0" * 48,
) -> list[JsonObject]:
    """The events of a plain run: one ``message.delta`` per piece, reasoning before them."""
    events: list[JsonObject] = [
        {"type": "chat.start", "model_instance_id": model},
        {"type": "prompt_processing.start"},
        {"type": "prompt_processing.end"},
    ]
    output: list[JsonObject] = []
    for kind, texts in (("reasoning", reasoning), ("message", pieces)):
        if not texts:
            continue
        events.append({"type": f"{kind}.start"})
        events += [{"type": f"{kind}.delta", "content": text} for text in texts]
        events.append({"type": f"{kind}.end"})
        output.append({"type": kind, "content": "".join(texts)})
    result = lmstudio_result(output, model=model, response_id=response_id)
    return [*events, {"type": "chat.end", "result": result}]


def chunk(
    delta: Mapping[str, Any] | None = None,
    *,
    finish_reason: str | None = None,
    usage: Mapping[str, Any] | None = None,
    completion: str = "chatcmpl-test",
    created: int = 1_700_000_000,
    model: str = "test/model",
) -> JsonObject:
    """One chat completions chunk; without a delta and a finish reason it carries only usage."""
    choice = {"index": 0, "delta": delta or {}, "logprobs": None, "finish_reason": finish_reason}
    found: JsonObject = {
        "id": completion,
        "object": "chat.completion.chunk",
        "created": created,
        "model": model,
        "system_fingerprint": model,
        "choices": [choice] if delta is not None or finish_reason else [],
    }
    return found if usage is None else {**found, "usage": usage}


def openai_run(
    *pieces: str, reasoning: Sequence[str] = (), model: str = "test/model"
) -> list[JsonObject]:
    """The chunks of a plain run: one content delta per piece, reasoning before them, usage last."""
    usage = {"prompt_tokens": 12, "completion_tokens": 34, "total_tokens": 46}
    return [
        chunk({"role": "assistant", "content": ""}, model=model),
        *(chunk({"reasoning_content": text}, model=model) for text in reasoning),
        *(chunk({"content": text}, model=model) for text in pieces),
        chunk({}, finish_reason="stop", model=model),
        chunk(usage=usage, model=model),
    ]
