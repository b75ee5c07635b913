"""What the fake upstream says: LM Studio streams in pieces, which wait at gates."""

from collections.abc import Sequence
from typing import Any

from tests.support.upstream.script import (
    AnyStep,
    Gate,
    Hang,
    Script,
    Send,
    lmstudio_event,
    lmstudio_result,
    stream,
)

Event = dict[str, Any]

BEGINNING: list[Event] = [
    {"type": "chat.start", "model_instance_id": "test/model"},
    {"type": "prompt_processing.start"},
    {"type": "prompt_processing.end"},
]
PROVIDER = {"type": "plugin", "plugin_id": "river"}


def say(text: str) -> Event:
    return {"type": "message.delta", "content": text}


def think(text: str) -> Event:
    return {"type": "reasoning.delta", "content": text}


def open_item(kind: str) -> Event:
    return {"type": f"{kind}.start"}


def close_item(kind: str) -> Event:
    return {"type": f"{kind}.end"}


def call(tool: str, arguments: dict[str, Any], output: str | None = None) -> list[Event]:
    """A tool call; without an output its result is still awaited."""
    common = {"tool": tool, "arguments": arguments, "provider_info": PROVIDER}
    events = [
        {"type": "tool_call.start", "tool": tool, "provider_info": PROVIDER},
        {"type": "tool_call.arguments", **common},
    ]
    return events if output is None else [*events, succeed(tool, arguments, output)]


def succeed(tool: str, arguments: dict[str, Any], output: str) -> Event:
    return {
        "type": "tool_call.success",
        "tool": tool,
        "arguments": arguments,
        "output": output,
        "provider_info": PROVIDER,
    }


def fail(message: str) -> Event:
    return {"type": "error", "error": {"type": "internal_error", "message": message}}


def end(stats: dict[str, float] | None = None) -> Event:
    return {"type": "chat.end", "result": lmstudio_result([], stats=stats)}


def gate(name: str) -> Gate:
    return Gate(name=name)


def hang() -> Hang:
    return Hang()


def scripted(*parts: Event | AnyStep | Sequence[Event]) -> Script:
    """One answer: events and steps in their order, each event sent by itself."""
    steps: list[AnyStep] = []
    for part in parts:
        if isinstance(part, dict):
            steps.append(Send(base64=lmstudio_event(part)))
        elif isinstance(part, list | tuple):
            steps += [Send(base64=lmstudio_event(event)) for event in part]
        else:
            steps.append(part)
    return stream(*steps)


def telling(*pieces: str | Gate | Hang, end_with: Event | None = None) -> Script:
    """An answer of one message: texts, and gates at which it waits."""
    parts = [say(piece) if isinstance(piece, str) else piece for piece in pieces]
    return scripted(
        BEGINNING,
        open_item("message"),
        *parts,
        close_item("message"),
        end() if end_with is None else end_with,
    )
