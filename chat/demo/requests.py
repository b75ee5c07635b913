"""What a request asks for, whatever API it came in, and helpers to read and refuse requests."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

JsonObject = dict[str, Any]
Value = TypeVar("Value")


class BadRequest(Exception):
    """The request is refused with this status and body, as its API words it."""

    def __init__(self, body: JsonObject, *, status: int = 400) -> None:
        super().__init__(body)
        self.status = status
        self.body = body


class Cut(Exception):
    """The scene wants the connection to break off here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    name: str
    schema: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRequest:
    """A request that was checked. `body` is the whole of it, for what one API alone knows."""

    dialect: str
    model: str
    text: str
    body: JsonObject
    turn: int = 1
    previous_question: str = ""
    # Short descriptions of what came along: a system prompt, pictures, parameters.
    received: tuple[str, ...] = ()
    # Whether the model thinks without being asked to; `None` where it was told not to.
    thinks: bool | None = False
    # Results of the calls that an earlier answer to this question asked for.
    tool_results: tuple[str, ...] = ()
    # Whether the server runs its tools itself; where it does not, an answer ends with its calls.
    runs_tools: bool = False
    tools: tuple[OfferedTool, ...] = ()
    # `auto`, `none`, `required`, or the name of the tool that is to be called.
    tool_choice: str = "auto"
    is_parallel: bool = True
    # What the answer must look like, where it must be JSON.
    schema: JsonObject | None = None
    limit: int | None = None
    stops: tuple[str, ...] = ()
    input_tokens: int = 0
    # The scene that continues an earlier answer, whatever the question says.
    scene: str = ""
    # Further placeholders of scenes.
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def streams(self) -> bool:
        return self.body.get("stream") is True


def parsed(data: bytes) -> Any:
    """Raises ``ValueError``."""
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def object_in(body: Mapping[str, Any], name: str) -> JsonObject:
    value = body.get(name)
    return value if isinstance(value, dict) else {}


def is_count(value: object, *, least: int = 1, most: int = 1_000_000_000) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def estimate(characters: int, pictures: int = 0) -> int:
    """Tokens for so many characters, with the few that every template adds."""
    return characters // 4 + 8 + 256 * pictures


def described(pictures: list[str]) -> tuple[str, ...]:
    """Pictures in words, which is all that the demo sees of them."""
    if not pictures:
        return ()
    count = "a picture" if len(pictures) == 1 else f"{len(pictures)} pictures"
    return (f"{count} ({', '.join(sorted(set(pictures)))})",)


def parameters_in(body: Mapping[str, Any], names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"`{name}` {body[name]}" for name in names if body.get(name) is not None)


# --- tools that a request offers -------------------------------------------------------------


def tools_in(body: Mapping[str, Any]) -> tuple[OfferedTool, ...]:
    """The functions under ``tools``, or under ``functions`` as older requests have them."""
    entries = body.get("tools") or body.get("functions") or []
    if not isinstance(entries, list):
        return ()
    functions = [entry.get("function", entry) for entry in entries if isinstance(entry, dict)]
    return tuple(
        OfferedTool(name=function["name"], schema=function.get("parameters") or {})
        for function in functions
        if isinstance(function, dict) and isinstance(function.get("name"), str)
    )


def tool_choice_in(body: Mapping[str, Any]) -> str:
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        function = choice.get("function")
        return str(function.get("name")) if isinstance(function, dict) else "auto"
    return {"any": "required"}.get(str(choice), str(choice)) if choice else "auto"


_EXAMPLES: Mapping[str, Any] = {
    "string": "October",
    "integer": 12,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
}


def arguments_for(schema: Mapping[str, Any]) -> JsonObject:
    """Something that fits a schema: every required member, or all where none is."""
    members = object_in(schema, "properties")
    required = schema.get("required")
    names = required if isinstance(required, list) and required else list(members)
    return {str(name): _example(members.get(name)) for name in names}


def _example(schema: object) -> Any:
    if not isinstance(schema, dict):
        return _EXAMPLES["string"]
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return schema["enum"][0]
    return _EXAMPLES.get(str(schema.get("type")), _EXAMPLES["string"])


# --- answers that a later request continues ----------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """A place in a conversation to which ``previous_response_id`` may return."""

    turn: int
    question: str
    tokens: int
    # What the answer waits for: calls by id, requests for approval by id.
    calls: tuple[str, ...] = ()
    approvals: Mapping[str, JsonObject] = field(default_factory=dict)


class Store(Generic[Value]):
    """The newest things that this process keeps; older ones are forgotten, as by a restart."""

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._values: dict[str, Value] = {}

    def get(self, key: str) -> Value | None:
        return self._values.get(key)

    def put(self, key: str, value: Value) -> None:
        self._values.pop(key, None)
        self._values[key] = value
        if len(self._values) > self._most:
            del self._values[next(iter(self._values))]
