"""What a scene of the demo's Xerotier is made of: texts, events, waiting, and ways to end."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from chat.demo.script import json_bytes

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Say:
    text: str


@dataclass(frozen=True, slots=True)
class Refuse:
    text: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Seconds at normal speed; in a long silence the connection is kept alive by comments."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Emit:
    """An ``x_*`` event."""

    type: str
    members: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    """An error in the middle of the stream, which then ends."""

    message: str
    code: str
    type: str | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection ends here, without a terminator."""


Step = Say | Refuse | Wait | Emit | Fail | Cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """``last`` comes between the finish chunk and the end of the stream."""

    steps: tuple[Step, ...]
    finish: Literal["stop", "tool_calls"] = "stop"
    last: tuple[Emit, ...] = ()


# --- steps that belong together ----------------------------------------------------------


def emit(type: str, **members: Any) -> Emit:
    return Emit(type, members)


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """Arguments travel as JSON in a text."""
    return json_bytes(arguments).decode()


def began(event: str, tool: str, **arguments: Any) -> Emit:
    return emit(f"x_research.{event}", name=tool, arguments=arguments_text(arguments))


def ended(
    tool: str, summary: str, *, metadata: Mapping[str, Any] | None = None, **arguments: Any
) -> Emit:
    return emit(
        "x_research.result",
        name=tool,
        arguments=arguments_text(arguments),
        metadata={"summary": summary, **(metadata or {})},
    )


def used(event: str, tool: str, summary: str, seconds: float, **arguments: Any) -> tuple[Step, ...]:
    """A tool that was begun, worked for a while, and gave a result."""
    duration = {"duration_ms": round(seconds * 1000)}
    return (
        began(event, tool, **arguments),
        Wait(seconds),
        ended(tool, summary, metadata=duration, **arguments),
    )


def paced(events: Iterable[Emit], seconds: float) -> tuple[Step, ...]:
    """Events with a pause after each."""
    return tuple(step for event in events for step in (event, Wait(seconds)))
