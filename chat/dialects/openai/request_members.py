"""Puts parameters, tools and formats into requests to OpenAI-like servers, under the names that
each knows."""

import tomllib
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from chat.dialects.base import ToolDefinition
from chat.dialects.parameters import FOLDER, Parameter, Values, limited, limits_of, not_sent
from chat.events import Json, JsonObject
from chat.events.translation import gettext_noop

# OpenAI's limit; other servers accept at least as many.
MOST_STOP_TEXTS = 4

_FILE = "openai/servers.toml"
_LISTED = tomllib.loads((FOLDER / _FILE).read_text())
# Our name of a parameter, and the member (with dots: of a member) that each kind of server knows.
SERVERS: Mapping[str, Mapping[str, str]] = _LISTED["servers"]
_LIMITS = limits_of(_FILE)
# Pairs of parameters that exclude each other: the one that is sent, and the other one.
_OVERRULED: Mapping[str, Mapping[str, str]] = _LISTED["overruled"]
_ONLY_SOME_KNOW = frozenset(_LISTED["only_some_know"])

# --- parameters -----------------------------------------------------------------------

NOT_KNOWN = "The parameter {name} was left out: the server’s settings don’t list it as supported."
OVERRULED = "The parameter {name} was left out: it can’t be combined with {other}."
SCHEMA_MISSING = gettext_noop(
    "The response format “JSON schema” was left out because it has no schema."
)
SCHEMA_UNUSED = gettext_noop(
    "The JSON schema was left out because the response format isn’t “JSON schema”."
)
NO_TOOLS = "no tools are enabled"
NO_SUCH_TOOL = gettext_noop("The tool choice was left out because no enabled tool has that name.")


def accepted(declared: tuple[Parameter, ...], options: Values) -> tuple[Parameter, ...]:
    """The parameters within the limits of this kind of server."""
    return limited(declared, _LIMITS.get(str(options.get("extras")), {}))


def place(
    body: JsonObject,
    parameters: Values,
    options: Values,
    *,
    few_know: Mapping[str, frozenset[str]] = MappingProxyType({}),
) -> list[str]:
    """Puts the parameters under the names of this kind of server. Returns a sentence for each that
    is left out: it does not know it, or another one excludes it. ``few_know`` names further
    parameters that only these kinds of server know."""
    server = str(options["extras"])
    added = {name.strip() for name in str(options.get("extra_members") or "").split(",")}
    excluded = {
        other: name for name, other in _OVERRULED.get(server, {}).items() if name in parameters
    }
    notes = []
    for name, value in parameters.items():
        is_rare = name in few_know and server not in few_know[name]
        is_unknown = name in _ONLY_SOME_KNOW and name not in SERVERS[server]
        if name in excluded:
            notes.append(OVERRULED.format(name=name, other=excluded[name]))
        elif (is_rare or is_unknown) and name not in added:
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


def place_logprobs(parameters: dict[str, object]) -> list[str]:
    """Alternative tokens are only available together with log probabilities. Returns a note if they
    were turned off."""
    if parameters.get("top_logprobs") is None:
        return []
    if parameters.get("logprobs") is False:
        turned_off = {"top_logprobs": parameters.pop("top_logprobs")}
        return not_sent(turned_off, "log probabilities are turned off")
    parameters["logprobs"] = True
    return []


def response_format(kind: object, schema: object) -> tuple[JsonObject | None, list[str]]:
    """The member ``response_format``, and a note if it cannot be made or the schema is not used."""
    if kind != "json_schema":
        notes = [] if schema is None else [SCHEMA_UNUSED]
        return None if kind is None else {"type": kind}, notes
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
    value: object, tools: Sequence[ToolDefinition], options: Values
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


def _choice_word(word: str, options: Values) -> str:
    """Two words for the same: OpenAI says ``required``, Mistral only accepts ``any``."""
    if word in ("required", "any"):
        return "any" if options.get("extras") == "mistral" else "required"
    return word
