"""The body of a Messages request: the chosen parameters, within what each server and model
accepts."""

from typing import cast

from chat.dialects.added_members import add_members
from chat.dialects.anthropic_messages.history import (
    build_messages,
    is_loop_without_thinking,
    tools_named_in,
)
from chat.dialects.base import AssistantTurn, Prompt, ToolDefinition
from chat.dialects.openai.request_members import NO_TOOLS
from chat.dialects.parameters import (
    Parameter,
    Values,
    declared,
    limited,
    limits_of,
    not_sent,
    read_options,
    read_parameters,
)
from chat.dialects.stream import object_of, text_of
from chat.events import Json, JsonObject
from chat.events.translation import gettext_noop

DECLARED = declared("anthropic_messages/parameters.toml")
_LIMITS = limits_of("anthropic_messages/servers.toml")
# The limit of the answer. The API requires one, and every recent model allows this much.
DEFAULT_MAX_TOKENS = 8192
LEAST_THINKING_TOKENS = 1024
# A budget must leave room for the answer itself.
DEFAULT_THINKING_TOKENS = 4096
# With reasoning enabled, Anthropic accepts no lower value.
LEAST_TOP_P_WITH_THINKING = 0.95
MOST_STOP_SEQUENCES = 16
_TOOL_PARAMETERS = ("tool_choice", "tool_name", "parallel_tools")

THINKING_SUSPENDED = gettext_noop(
    "Thinking was turned off for this request because the answer it continues has no thinking."
)
BUDGET_LOWERED = "The thinking budget was lowered to {}: it must be below max tokens."
NO_ROOM_TO_THINK = gettext_noop("Thinking was turned off because max tokens leaves no room for it.")
NOT_TAKEN = "The parameter {} was left out: this server doesn’t support it{}."
THINKING_CHANGED = "Thinking was set to {}: this model supports no other setting."
NO_SUCH_TOOL = "The tool {} couldn’t be required because it isn’t enabled here."
STOPS_LEFT_OUT = "Only the first {} stop sequences were sent."
LIMIT_LOWERED = "Max tokens was set to {}, the maximum of this model."
METADATA_LEFT_OUT = gettext_noop(
    "The metadata from the server’s settings was left out: it isn’t a JSON object."
)
REFUSED = "The parameter {} was left out because the server rejected it."


def accepted(options: Values) -> tuple[Parameter, ...]:
    """The parameters within the limits of the provider."""
    return limited(DECLARED.parameters, _LIMITS.get(str(options.get("server")), {}))


def build_body(prompt: Prompt) -> tuple[JsonObject, list[str]]:
    """The body, and a sentence for each value that was corrected or left out."""
    options = read_options(DECLARED.options, prompt.options)
    server = str(options["server"])
    chosen, notes = read_parameters(accepted(options), prompt.parameters)
    _apply_refusals(chosen, prompt.options, notes)
    _apply_capabilities(chosen, prompt, notes)
    takes_pictures = supports(prompt, "image_input") is not False
    messages, more_notes = build_messages(prompt, server, takes_pictures=takes_pictures)
    body: JsonObject = {
        "model": prompt.model,
        # If nothing was chosen, the reasoning budget decides; the limit is applied below.
        "max_tokens": chosen.pop("max_tokens", None),
        "messages": messages,
        "stream": prompt.stream,
    }
    if prompt.system.strip():
        body["system"] = prompt.system
    _add_thinking(body, chosen, server, notes)
    _keep_below(body, _most_tokens(prompt), notes)
    if "effort" in chosen:
        body["output_config"] = {"effort": chosen.pop("effort")}
    _add_tools(body, prompt.tools, options, chosen, notes)
    _add_sampling(body, chosen, server, notes)
    _add_options(body, prompt, options, notes)
    notes += add_members(body, options)
    return body, [*notes, *more_notes]


def _apply_refusals(chosen: dict[str, object], options: Values, notes: list[str]) -> None:
    """Applies what earlier attempts of the same request were refused for (see
    ``after_refusal``)."""
    refused = options.get("refused_parameters")
    for name in refused if isinstance(refused, tuple) else ():
        if chosen.pop(name, None) is not None:
            notes.append(REFUSED.format(name))


# --- what the model can do, as far as the list or a refusal has said -----------------------


def supports(prompt: Prompt, *path: str) -> bool | None:
    """The capability in the server's list; ``None`` if the list doesn't say."""
    found = object_of(prompt.model_detail, "capabilities")
    for name in path:
        found = object_of(found, name)
    value = found.get("supported")
    return value if isinstance(value, bool) else None


def _apply_capabilities(chosen: dict[str, object], prompt: Prompt, notes: list[str]) -> None:
    most = _most_tokens(prompt)
    wish = chosen.get("max_tokens")
    if most is not None and isinstance(wish, int) and wish > most:
        chosen["max_tokens"] = most
        notes.append(LIMIT_LOWERED.format(most))
    effort = chosen.get("effort")
    if effort and False in (supports(prompt, "effort"), supports(prompt, "effort", str(effort))):
        del chosen["effort"]
        notes.append(NOT_TAKEN.format("effort", f" ({effort})"))
    kind = chosen.get("thinking")
    if kind in _OTHER_THINKING and supports(prompt, "thinking", "types", str(kind)) is False:
        _replace_thinking(chosen, prompt, notes)


_OTHER_THINKING = {"enabled": "adaptive", "adaptive": "enabled"}


def _replace_thinking(chosen: dict[str, object], prompt: Prompt, notes: list[str]) -> None:
    kind = str(chosen.pop("thinking"))
    other = _OTHER_THINKING[kind]
    if supports(prompt, "thinking", "types", other):
        chosen["thinking"] = other
        notes.append(THINKING_CHANGED.format(other))
    else:
        notes.append(NOT_TAKEN.format("thinking", f" ({kind})"))


def _most_tokens(prompt: Prompt) -> int | None:
    """The longest answer that the model allows."""
    said = (prompt.options.get("most_tokens"), prompt.model_detail.get("max_tokens"))
    limits = [n for n in said if isinstance(n, int) and not isinstance(n, bool) and n > 0]
    return min(limits, default=None)


def _keep_below(body: JsonObject, most: int | None, notes: list[str]) -> None:
    """Lowers the default limit of the answer, and the budget with it. A limit that a user chose was
    lowered before."""
    if most is None or body["max_tokens"] <= most:
        return
    body["max_tokens"] = most
    budget = object_of(body, "thinking").get("budget_tokens")
    if budget is None or budget < most:
        return
    if most <= LEAST_THINKING_TOKENS:
        del body["thinking"]
        notes.append(NO_ROOM_TO_THINK)
    else:
        body["thinking"]["budget_tokens"] = most - 1
        notes.append(BUDGET_LOWERED.format(most - 1))


# --- thinking -----------------------------------------------------------------------------


def _add_thinking(
    body: JsonObject, chosen: dict[str, object], server: str, notes: list[str]
) -> None:
    kind = chosen.pop("thinking", None)
    budget = cast(int | None, chosen.pop("thinking_budget", None))
    display = chosen.pop("thinking_display", None)
    if kind == "adaptive" and server == "fireworks":
        notes.append(NOT_TAKEN.format("thinking", " (adaptive)"))
        kind = None
    if kind != "enabled":
        notes += not_sent({"thinking_budget": budget}, "it applies only to enabled thinking")
    if kind not in ("enabled", "adaptive"):
        notes += not_sent({"thinking_display": display}, "it applies only to thinking")
    if kind == "enabled" and is_loop_without_thinking(body["messages"]):
        notes.append(THINKING_SUSPENDED)
        kind = None
    thinking: JsonObject = {"type": kind}
    if kind == "enabled":
        thinking["budget_tokens"] = _budget(body, budget, notes)
        kind = kind if thinking["budget_tokens"] else None
    if kind in ("enabled", "adaptive") and display:
        thinking["display"] = display
    if kind:
        body["thinking"] = thinking
    body["max_tokens"] = body["max_tokens"] or DEFAULT_MAX_TOKENS


def _budget(body: JsonObject, wish: int | None, notes: list[str]) -> int | None:
    """A budget below the limit of the answer, which is raised if nobody chose it."""
    limit = body["max_tokens"]
    if limit is None:
        budget = wish or DEFAULT_THINKING_TOKENS
        body["max_tokens"] = budget + DEFAULT_MAX_TOKENS
        return budget
    if limit <= LEAST_THINKING_TOKENS:
        notes.append(NO_ROOM_TO_THINK)
        return None
    # If nobody chose, half of the answer may be reasoning.
    budget = wish or max(LEAST_THINKING_TOKENS, min(DEFAULT_THINKING_TOKENS, limit // 2))
    if budget < limit:
        return budget
    notes.append(BUDGET_LOWERED.format(limit - 1))
    return int(limit - 1)


# --- tools --------------------------------------------------------------------------------


def _add_tools(
    body: JsonObject,
    tools: tuple[ToolDefinition, ...],
    options: Values,
    chosen: dict[str, object],
    notes: list[str],
) -> None:
    wishes = {name: chosen.pop(name, None) for name in _TOOL_PARAMETERS}
    wish, name, is_parallel = wishes.values()
    offered = [*map(_wire_tool, tools), *_listed(options.get("server_tools"))]
    if not offered:
        notes += not_sent(wishes, NO_TOOLS)
        _add_known_tools(body)
        return
    body["tools"] = offered
    choice: JsonObject = {"type": wish} if wish else {}
    if name in [tool.name for tool in tools]:
        choice = {"type": "tool", "name": name}
        notes += not_sent({"tool_choice": wish}, f"the tool {name} is required")
    elif name:
        notes.append(NO_SUCH_TOOL.format(name))
    if _thinks(body) and choice.get("type") in ("any", "tool"):
        notes.append(NOT_TAKEN.format("tool_choice", " together with thinking"))
        choice = {}
    if is_parallel is False and choice.get("type") != "none":
        choice = {**(choice or {"type": "auto"}), "disable_parallel_tool_use": True}
    if choice:
        body["tool_choice"] = choice


def _listed(value: object) -> list[Json]:
    """A setting that is a list; one entry needs none."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _wire_tool(tool: ToolDefinition) -> JsonObject:
    wire: JsonObject = {
        "name": tool.name,
        "input_schema": {"type": "object", **tool.schema},
    }
    return {**wire, "description": tool.description} if tool.description else wire


def _add_known_tools(body: JsonObject) -> None:
    """Earlier calls may only be sent back with a definition of their tools. Tools that were
    disabled since are listed, and none may be called."""
    names = tools_named_in(body["messages"])
    if names:
        body["tools"] = [_wire_tool(ToolDefinition(name=name)) for name in names]
        body["tool_choice"] = {"type": "none"}


def _thinks(body: JsonObject) -> bool:
    return object_of(body, "thinking").get("type") in ("enabled", "adaptive")


# --- the rest -------------------------------------------------------------------------------


def _add_sampling(
    body: JsonObject, chosen: dict[str, object], server: str, notes: list[str]
) -> None:
    stop = [line for line in str(chosen.pop("stop_sequences", "")).splitlines() if line.strip()]
    if stop:
        body["stop_sequences"] = stop[:MOST_STOP_SEQUENCES]
    if len(stop) > MOST_STOP_SEQUENCES:
        notes.append(STOPS_LEFT_OUT.format(MOST_STOP_SEQUENCES))
    if server == "anthropic" and _thinks(body):
        for name in ("temperature", "top_k"):
            if chosen.pop(name, None) is not None:
                notes.append(NOT_TAKEN.format(name, " together with thinking"))
        if cast(float, chosen.get("top_p", 1)) < LEAST_TOP_P_WITH_THINKING:
            del chosen["top_p"]
            notes.append(NOT_TAKEN.format("top_p", " together with thinking"))
    body.update(chosen)


def _add_options(body: JsonObject, prompt: Prompt, options: Values, notes: list[str]) -> None:
    servers = _listed(options.get("mcp_servers"))
    if servers:
        body["mcp_servers"] = servers
    metadata = options.get("metadata")
    if isinstance(metadata, dict):
        body["metadata"] = metadata
    elif metadata is not None:
        notes.append(METADATA_LEFT_OUT)
    if options["cache"]:
        body["cache_control"] = {"type": "ephemeral"}
    container = _container(prompt)
    if container:
        body["container"] = container


def _container(prompt: Prompt) -> str:
    """Code that an answer has started continues in the container where it ran."""
    last = prompt.turns[-1] if prompt.turns else None
    if not isinstance(last, AssistantTurn) or not last.is_native:
        return ""
    return text_of(object_of(last.result.ext.meta, "container"), "id")
