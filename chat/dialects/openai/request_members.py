"""Puts parameters, tools and formats into requests to OpenAI-like servers, under the names that
each knows."""

import tomllib
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from chat.dialects.base import ToolDefinition
from chat.dialects.parameters import FOLDER
from chat.events import Json, JsonObject
from chat.events.translation import gettext_noop

# OpenAI's limit; other servers accept at least as many.
MOST_STOP_TEXTS = 4

_LISTED = tomllib.loads((FOLDER / "openai" / "servers.toml").read_text())
# Our name of a parameter, and the member (with dots: of a member) that each kind of server knows.
SERVERS: Mapping[str, Mapping[str, str]] = _LISTED["servers"]
_ONLY_SOME_KNOW = frozenset(_LISTED["only_some_know"])

# --- parameters -----------------------------------------------------------------------

NOT_KNOWN = "The parameter {name} was left out: the server’s settings don’t list it as supported."
SCHEMA_MISSING = gettext_noop(
    "The response format “JSON schema” was left out because it has no schema."
)
NO_SUCH_TOOL = gettext_noop("The tool choice was left out because no enabled tool has that name.")
_NEVER_ADDED = frozenset(
    ("model", "messages", "prompt", "input", "stream", "stream_options", "echo")
)


def added_members(options: Mapping[str, object]) -> JsonObject:
    """Members that the upstream's settings add to every request. They cannot replace the
    conversation."""
    members = options.get("extra_body")
    if not isinstance(members, dict):
        return {}
    return {name: value for name, value in members.items() if name not in _NEVER_ADDED}


def place(
    body: JsonObject,
    parameters: Mapping[str, object],
    options: Mapping[str, object],
    *,
    few_know: Mapping[str, frozenset[str]] = MappingProxyType({}),
) -> list[str]:
    """Puts the parameters under the names of this kind of server. Returns a sentence for each that
    it does not know, which is left out. ``few_know`` names further parameters that only these kinds
    of server know."""
    server = str(options["extras"])
    added = {name.strip() for name in str(options.get("extra_members") or "").split(",")}
    notes = []
    for name, value in parameters.items():
        is_rare = name in few_know and server not in few_know[name]
        is_unknown = name in _ONLY_SOME_KNOW and name not in SERVERS[server]
        if (is_rare or is_unknown) and name not in added:
            notes.append(NOT_KNOWN.format(name=name))
        else:
            _set(body, SERVERS[server].get(name, name), value)
    return notes


def _set(body: JsonObject, path: str, value: Json) -> None:
    outer, _, inner = path.rpartition(".")
    if not outer:
        body[path] = value
        return
    if value in ("enabled", "disabled") and inner != "type":
        value = value == "enabled"
    earlier = body.get(outer)
    body[outer] = {**(earlier if isinstance(earlier, dict) else {}), inner: value}


def stop_texts(value: object, *, room: int = MOST_STOP_TEXTS) -> tuple[list[str], list[str]]:
    """The lines of a parameter as stop texts, and a note where there were too many."""
    texts = list(dict.fromkeys(line for line in str(value or "").splitlines() if line))
    if len(texts) <= room:
        return texts, []
    return texts[:room], [f"Only the first {room} of {len(texts)} stop sequences were sent."]


def place_logprobs(parameters: dict[str, object]) -> None:
    """Alternative tokens are only available together with log probabilities."""
    if parameters.get("logprobs") is False:
        parameters.pop("top_logprobs", None)
    elif parameters.get("top_logprobs") is not None:
        parameters["logprobs"] = True


def response_format(kind: object, schema: object) -> tuple[JsonObject | None, list[str]]:
    """The member ``response_format``, and a note if it cannot be made."""
    if kind is None:
        return None, []
    if kind != "json_schema":
        return {"type": kind}, []
    if not isinstance(schema, dict):
        return None, [SCHEMA_MISSING]
    wanted = {"name": "answer", "schema": schema, "strict": True}
    return {"type": "json_schema", "json_schema": wanted}, []


# --- tools ------------------------------------------------------------------------------

_CHOICES = ("auto", "none", "required", "any")


def wire_tools(tools: Sequence[ToolDefinition]) -> list[JsonObject]:
    return [{"type": "function", "function": _function(tool)} for tool in tools]


def legacy_functions(tools: Sequence[ToolDefinition]) -> list[JsonObject]:
    return [_function(tool) for tool in tools]


def _function(tool: ToolDefinition) -> JsonObject:
    schema = tool.schema or {"type": "object", "properties": {}}
    function: JsonObject = {"name": tool.name, "parameters": schema}
    return {**function, "description": tool.description} if tool.description else function


def tool_choice(
    value: object, tools: Sequence[ToolDefinition], options: Mapping[str, object]
) -> tuple[Json, list[str]]:
    """The member ``tool_choice``, and a note if it names a tool that is not offered."""
    word = str(value or "").strip()
    if not word:
        return None, []
    if word.lower() in _CHOICES:
        return _choice_word(word.lower(), options), []
    if any(tool.name == word for tool in tools):
        return {"type": "function", "function": {"name": word}}, []
    return None, [NO_SUCH_TOOL]


def _choice_word(word: str, options: Mapping[str, object]) -> str:
    """Two words for the same: OpenAI says ``required``, Mistral only accepts ``any``."""
    if word in ("required", "any"):
        return "any" if options.get("extras") == "mistral" else "required"
    return word
