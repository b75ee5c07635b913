"""The requests of all APIs as one value. The demo checks no parameters."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from chat.demo.models import DemoServer

JsonObject = dict[str, Any]
Value = TypeVar("Value")

REMEMBERED = 10_000

# Parameters that an answer names among the things it received.
_NAMED = (
    *("temperature", "top_p", "top_k", "min_p", "repeat_penalty", "frequency_penalty", "seed"),
    *("presence_penalty", "max_output_tokens", "max_completion_tokens", "max_tokens", "stop", "n"),
    *("reasoning", "reasoning_effort", "top_logprobs", "service_tier", "user"),
)
_LIMITS = ("max_output_tokens", "max_completion_tokens", "max_tokens")


class BadRequest(Exception):
    """A request that is refused with this body."""

    def __init__(self, message: str, *, code: str, param: str | None = None) -> None:
        super().__init__(message)
        error = {"type": "invalid_request", "message": message, "code": code, "param": param}
        self.body: JsonObject = {"error": error}


class Cut(Exception):
    """A scene ends the connection here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    name: str
    schema: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRequest:
    dialect: str
    model: str
    text: str
    body: JsonObject
    turn: int = 1
    previous_question: str = ""
    # Short descriptions of what was sent: a system prompt, pictures, parameters.
    received: tuple[str, ...] = ()
    # True if the model reasons unasked; `None` if the request disables it.
    thinks: bool | None = False
    # Results of the calls that an earlier answer to this question asked for.
    tool_results: tuple[str, ...] = ()
    # True if the server runs its tools itself; if not, an answer ends with its calls.
    runs_tools: bool = False
    tools: tuple[OfferedTool, ...] = ()
    limit: int | None = None
    input_tokens: int = 0
    # The scene that continues an earlier answer, whatever the question is.
    scene: str = ""
    # Further placeholders of scenes.
    values: Mapping[str, Any] = field(default_factory=dict)


def object_in(body: Mapping[str, Any], name: str) -> JsonObject:
    value = body.get(name)
    return value if isinstance(value, dict) else {}


def objects_in(value: object) -> list[JsonObject]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


# --- messages --------------------------------------------------------------------------------


@dataclass(slots=True)
class Conversation:
    """The questions so far, and what was sent with the newest one."""

    questions: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    texts_before: int = 0
    tool_results: list[str] = field(default_factory=list)
    system_characters: int = 0
    characters: int = 0


def messages_in(body: JsonObject) -> list[JsonObject]:
    """The messages; a single text or the parts of one are a message of the user."""
    given = body.get("messages") or body.get("input") or body.get("prompt") or ""
    messages = objects_in(given)
    if all(each.get("type") in ("text", "image") for each in messages):
        return [{"role": "user", "content": messages or str(given)}]
    return messages


def conversation_in(body: JsonObject) -> Conversation:
    found = Conversation()
    for name in ("system", "instructions", "system_prompt"):
        found.system_characters += len(str(body.get(name) or ""))
    for message in messages_in(body):
        _READERS.get(str(message.get("role") or message.get("type")), _read_nothing)(message, found)
    return found


def _read_nothing(message: JsonObject, found: Conversation) -> None:
    """Skips calls and reasoning of earlier answers, which are no part of the question."""


def _read_system(message: JsonObject, found: Conversation) -> None:
    found.system_characters += len(text_of(message))


def _read_answer(message: JsonObject, found: Conversation) -> None:
    found.tool_results = []
    found.answers.append(text_of(message))


def _read_result(message: JsonObject, found: Conversation) -> None:
    found.tool_results.append(text_of(message) or str(message.get("output") or ""))


def _read_user(message: JsonObject, found: Conversation) -> None:
    parts = objects_in(message.get("content"))
    results = [part for part in parts if part.get("type") == "tool_result"]
    if results and len(results) == len(parts):
        found.tool_results = [
            ("(failed) " if part.get("is_error") else "") + text_of(part) for part in results
        ]
        return
    found.tool_results = []
    found.pictures = [_media_type(part) for part in parts if "image" in str(part.get("type"))]
    *before, text = _texts_in(message) or [""]
    found.texts_before = sum(map(len, before))
    found.characters += found.texts_before + len(text)
    found.questions += _questions_in(text)


_READERS = {
    "system": _read_system,
    "developer": _read_system,
    "assistant": _read_answer,
    "tool": _read_result,
    "function_call_output": _read_result,
    "user": _read_user,
}


def _texts_in(message: JsonObject) -> list[str]:
    content = message.get("content")
    if not isinstance(content, list):
        return [str(content or "")]
    texts = (part.get("text") or part.get("content") for part in objects_in(content))
    return [text for text in texts if isinstance(text, str)]


def text_of(message: JsonObject) -> str:
    return "\n\n".join(_texts_in(message))


def _media_type(part: JsonObject) -> str:
    url = part.get("data_url") or part.get("image_url") or object_in(part, "source")
    if isinstance(url, dict):
        url = url.get("url") or f"data:{url.get('media_type')};"
    found = re.match(r"data:(image/[\w.+-]+);", str(url))
    return found[1] if found else "by address"


# A history that is sent as text before the question, as the LM Studio dialect does.
_HISTORY = re.compile(
    r"The conversation so far:\n\n(?P<turns>.*)\n\nThe user's next message:\n\n(?P<question>.*)",
    re.DOTALL,
)
_QUESTION = re.compile(r"(?:\A|\n\n)User:\n(.*?)(?=\n\n(?:Assistant|User):\n|\Z)", re.DOTALL)
# The markers around a person's text in the prompt templates of legacy completions.
_PROMPT = re.compile(
    r"(?:<\|im_start\|>user\n|<\|start_header_id\|>user<\|end_header_id\|>\n\n|\[INST\] "
    r"|<start_of_turn>user\n|^### Instruction:\n|^User: )(.*?)"
    r"(?:<\|im_end\|>|<\|eot_id\|>|\[/INST\]|<end_of_turn>|\n\n(?=### )|\n(?=Assistant:|User:))",
    re.DOTALL | re.MULTILINE,
)


def _questions_in(text: str) -> list[str]:
    """The questions in one text, the newest last."""
    history = _HISTORY.fullmatch(text)
    if history:
        return [*_QUESTION.findall(history["turns"]), history["question"]]
    return _PROMPT.findall(text) or [text]


# --- the request -----------------------------------------------------------------------------


def read_request(
    server: DemoServer, body: JsonObject, previous: "StoredAnswer | None" = None
) -> DemoRequest:
    """The request as a value. Raises ``BadRequest`` if the model is unknown."""
    model = server.models[0] if server.has_one_model else server.find(body.get("model"))
    if model is None:
        raise BadRequest(
            f"Model not found: {body.get('model')}", code="model_not_found", param="model"
        )
    said = conversation_in(body)
    questions = [*([previous.question] if previous else []), *said.questions]
    # A history that only the server has contains at least one turn.
    before = previous.turn if previous else int("previous_response_id" in body)
    characters = said.characters + said.system_characters
    # The estimate includes the few tokens that every template adds.
    tokens = characters // 4 + 8 + 256 * len(said.pictures)
    return DemoRequest(
        dialect=server.dialect,
        model=model.id,
        body=body,
        text=questions[-1] if questions else "",
        turn=before + len(said.questions),
        previous_question=questions[-2] if len(questions) > 1 else "",
        received=_received(body, said),
        thinks=None if _is_told_not_to_think(body) else model.thinks,
        tool_results=tuple(said.tool_results),
        tools=_tools_in(body),
        limit=_limit_in(body),
        input_tokens=(previous.tokens if previous else 0) + tokens,
    )


def _received(body: JsonObject, said: Conversation) -> tuple[str, ...]:
    found = []
    if said.pictures:
        count = len(said.pictures)
        words = "a picture" if count == 1 else f"{count} pictures"
        found.append(f"{words} ({', '.join(sorted(set(said.pictures)))})")
    if said.system_characters:
        found.append(f"a system prompt of {said.system_characters} characters")
    if said.texts_before:
        found.append(f"{said.texts_before} characters of text before it")
    plain = ((name, body.get(name)) for name in _NAMED)
    found += [f"`{name}` {value}" for name, value in plain if isinstance(value, str | int | float)]
    return tuple(found)


def _is_told_not_to_think(body: JsonObject) -> bool:
    effort = body.get("reasoning_effort") or object_in(body, "reasoning").get("effort")
    is_off = body.get("reasoning") == "off" or effort in ("none", "minimal")
    return is_off or object_in(body, "thinking").get("type") == "disabled"


def _limit_in(body: JsonObject) -> int | None:
    limits = (body.get(name) for name in _LIMITS)
    return next((limit for limit in limits if isinstance(limit, int) and limit > 0), None)


def _tools_in(body: JsonObject) -> tuple[OfferedTool, ...]:
    choice = body.get("tool_choice")
    if choice == "none" or (isinstance(choice, dict) and choice.get("type") == "none"):
        return ()
    functions = [entry.get("function", entry) for entry in objects_in(body.get("tools"))]
    return tuple(
        OfferedTool(
            name=function["name"],
            schema=function.get("parameters") or function.get("input_schema") or {},
        )
        for function in functions
        if isinstance(function, dict) and isinstance(function.get("name"), str)
    )


_EXAMPLES: Mapping[str, Any] = {
    "string": "October",
    "integer": 12,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
}


def arguments_for(schema: Mapping[str, Any], text: str = "") -> JsonObject:
    """Arguments that fit a schema: the required members, or all if none is required. Of several possible values it is
    the first one that ``text`` has, or else the first one."""
    members = object_in(schema, "properties")
    required = schema.get("required")
    names = required if isinstance(required, list) and required else list(members)
    return {str(name): _example(members.get(name), text) for name in names}


def _example(schema: object, text: str) -> Any:
    if not isinstance(schema, dict):
        return _EXAMPLES["string"]
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        said = (value for value in schema["enum"] if isinstance(value, str) and value in text)
        return next(said, schema["enum"][0])
    return _EXAMPLES.get(str(schema.get("type")), _EXAMPLES["string"])


# --- answers that a later request continues ----------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """A place in a conversation that ``previous_response_id`` may continue."""

    turn: int
    question: str
    tokens: int


@dataclass(frozen=True, slots=True)
class DemoState:
    """State of one process."""

    loaded_models: set[str] = field(default_factory=set)
    answers: dict[str, StoredAnswer] = field(default_factory=dict)
    # Bundle ids of mockups, mapped to their current version.
    bundles: dict[str, int] = field(default_factory=dict)


def remember(memory: dict[str, Value], key: str, value: Value) -> None:
    """Keeps only the newest entries; older ones are lost, as by a restart."""
    memory[key] = value
    if len(memory) > REMEMBERED:
        del memory[next(iter(memory))]
