"""OpenAI's Responses: requests, and the parser of answers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import msgspec

from chat.dialects.added_members import add_members
from chat.dialects.base import (
    Audio,
    Dialect,
    Document,
    Image,
    Parser,
    Prompt,
    Text,
    ToolDefinition,
    UpstreamRequest,
)
from chat.dialects.openai.request_members import NO_SUCH_TOOL, NO_TOOLS
from chat.dialects.openai_responses.input import newest_items, whole_items
from chat.dialects.openai_responses.parser import ResponsesParser
from chat.dialects.parameters import (
    Parameter,
    Values,
    declared,
    not_sent,
    read_options,
    read_parameters,
)
from chat.dialects.stream import text_of
from chat.events import ErrorInfo, Json, JsonObject
from chat.events.translation import gettext_noop

_DECLARED = declared("openai_responses/parameters.toml")

HISTORY_SENT_AGAIN = gettext_noop(
    "The server no longer had this conversation, so all earlier messages were sent."
)
REFUSED = "The parameter {} was left out because the server rejected it."

# Outputs of tools; requested if such a tool is offered.
_DETAILS: Mapping[str, str] = {
    "web_search": "web_search_call.action.sources",
    "file_search": "file_search_call.results",
    "code_interpreter": "code_interpreter_call.outputs",
}
# Optional members of a request, by the name that a refusal gives them.
_DISPENSABLE: Mapping[str, str] = {
    "reasoning.summary": "reasoning_summary",
    "reasoning.effort": "reasoning_effort",
    "text.verbosity": "verbosity",
    "verbosity": "verbosity",
    "reasoning_effort": "reasoning_effort",
    "include": "include",
    "encrypted_content": "include",
    "Encrypted content": "include",
    "stream_options": "stream_options",
    "store": "store",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_logprobs": "top_logprobs",
    "truncation": "truncation",
    "service_tier": "service_tier",
    "context_management": "compact_threshold",
    "max_tool_calls": "max_tool_calls",
    "parallel_tool_calls": "parallel_tool_calls",
    "reasoning": "reasoning_effort",
}


class OpenAiResponsesDialect(Dialect):
    name: ClassVar[str] = "openai_responses"
    label: ClassVar[str] = gettext_noop("OpenAI Responses")
    help: ClassVar[str] = gettext_noop(
        "OpenAI’s Responses API, also offered by Fireworks, Friendli, LM Studio, vLLM and "
        "others. The address usually ends in /v1."
    )
    path: ClassVar[str] = "/responses"
    models_path: ClassVar[str] = "/models"
    # With any other value of the option ``history`` the id is not used.
    keeps_history: ClassVar[bool] = True
    compaction_parameter: ClassVar[str] = "compact_threshold"
    takes_tools: ClassVar[bool] = True
    takes_parts = frozenset({Text, Image, Audio, Document})
    document_types = frozenset({"application/pdf"})
    parameters: ClassVar[tuple[Parameter, ...]] = _DECLARED.parameters
    options: ClassVar[tuple[Parameter, ...]] = _DECLARED.options

    def request(self, prompt: Prompt) -> UpstreamRequest:
        options = read_options(self.options, prompt.options)
        parameters, notes = read_parameters(self.parameters, prompt.parameters)
        notes += self.left_out(prompt)
        refused = _refused(prompt)
        for name in refused:
            if parameters.pop(name, None) is not None:
                notes.append(REFUSED.format(name))
        if prompt.options.get("has_lost_history"):
            notes.append(HISTORY_SENT_AGAIN)
        body: JsonObject = {"model": prompt.model, "stream": prompt.stream}
        body |= _conversation(prompt, options)
        body |= _wire_tools(prompt.tools, options, parameters, notes)
        body |= _wire_parameters(parameters)
        body |= _housekeeping(prompt, options, parameters, body.get("tools", []))
        sent = {name: value for name, value in body.items() if name not in refused}
        notes += add_members(sent, options)
        return self.sent(sent, notes)

    def parser(self, *, model: str, endpoint: str = "", options: Values) -> Parser:
        return ResponsesParser(
            model=model,
            endpoint=endpoint,
            options=read_options(self.options, options),
        )

    def after_refusal(self, prompt: Prompt, error: ErrorInfo) -> Prompt | None:
        text = f"{error.param} {error.code} {error.message}"
        if prompt.previous_response_id and _is_about_history(prompt, error, text):
            lost = {**prompt.options, "has_lost_history": True}
            return replace(prompt, previous_response_id=None, options=lost)
        if error.status not in (400, 422):
            return None
        return _without(prompt, text)


# --- the request --------------------------------------------------------------------------


def _conversation(prompt: Prompt, options: Values) -> JsonObject:
    """``previous_response_id`` does not carry over ``instructions``, so they are always sent."""
    conversation: JsonObject = {"instructions": prompt.system} if prompt.system else {}
    if prompt.previous_response_id and options["history"] == "stateful":
        newest = newest_items(prompt)
        if newest:
            return {
                **conversation,
                "previous_response_id": prompt.previous_response_id,
                "input": newest,
            }
    return {**conversation, "input": whole_items(prompt)}


def _wire_tools(
    tools: Sequence[ToolDefinition],
    options: Values,
    parameters: dict[str, object],
    notes: list[str],
) -> JsonObject:
    """The team's functions, then the server's own tools. Removes what concerns tools from
    ``parameters``, which would be refused without any tool."""
    wishes = {name: parameters.pop(name, None) for name in ("tool_choice", "parallel_tool_calls")}
    choice = str(wishes["tool_choice"] or "").strip()
    wire: list[Json] = [_function(tool) for tool in tools]
    extra = options.get("extra_tools")
    wire += extra if isinstance(extra, list) else [extra] if extra else []
    if not wire:
        notes += not_sent(wishes, NO_TOOLS)
        return {}
    found: JsonObject = {"tools": wire}
    if wishes["parallel_tool_calls"] is not None:
        found["parallel_tool_calls"] = wishes["parallel_tool_calls"]
    if choice.lower() in ("auto", "none", "required"):
        found["tool_choice"] = choice.lower()
    elif any(tool.name == choice for tool in tools):
        found["tool_choice"] = {"type": "function", "name": choice}
    elif choice:
        notes.append(NO_SUCH_TOOL)
    return found


def _function(tool: ToolDefinition) -> JsonObject:
    """A tool that is not strict: the strict mode refuses most schemas that people write."""
    schema = tool.schema or {"type": "object", "properties": {}}
    function: JsonObject = {"type": "function", "name": tool.name}
    if tool.description:
        function["description"] = tool.description
    return {**function, "parameters": schema, "strict": False}


def _wire_parameters(parameters: Values) -> JsonObject:
    wire: JsonObject = dict(parameters)
    names = {"reasoning_effort": "effort", "reasoning_summary": "summary"}
    reasoning = {names[name]: wire.pop(name) for name in names if name in wire}
    if reasoning:
        wire["reasoning"] = reasoning
    threshold = wire.pop("compact_threshold", None)
    if threshold:
        wire["context_management"] = [{"type": "compaction", "compact_threshold": threshold}]
    form, verbosity = wire.pop("text_format", None), wire.pop("verbosity", None)
    if form or verbosity:
        # LM Studio refuses the member without a format.
        wire["text"] = {"format": form or {"type": "text"}}
    if verbosity:
        wire["text"]["verbosity"] = verbosity
    return wire


def _housekeeping(
    prompt: Prompt, options: Values, parameters: Values, tools: list[Json]
) -> JsonObject:
    """The members about storage, and about data requested beside the answer."""
    found: JsonObject = {}
    kinds = {text_of(tool, "type") for tool in tools if isinstance(tool, dict)}
    include = [detail for kind, detail in _DETAILS.items() if kind in kinds]
    if options["history"] == "stateless":
        found["store"] = False
        include.append("reasoning.encrypted_content")
    if parameters.get("top_logprobs"):
        include.append("message.output_text.logprobs")
    if include and options["history"] != "bare":
        found["include"] = include
    if prompt.stream and options["is_unpadded"]:
        found["stream_options"] = {"include_obfuscation": False}
    return found


# --- after a refusal ------------------------------------------------------------------------


def _is_about_history(prompt: Prompt, error: ErrorInfo, text: str) -> bool:
    """Returns whether the server has lost the answer to continue from, or wants a result that nobody
    has."""
    if error.status not in (400, 404):
        return False
    lowered = text.lower()
    is_lost = "previous_response" in lowered or str(prompt.previous_response_id).lower() in lowered
    return is_lost or "no tool output found" in lowered


def _refused(prompt: Prompt) -> tuple[str, ...]:
    known = prompt.options.get("refused_members")
    return known if isinstance(known, tuple) else ()


def _without(prompt: Prompt, text: str) -> Prompt | None:
    """The prompt without the first member that the refusal names and that was sent."""
    refused = _refused(prompt)
    sent = _sent_names(prompt)
    for word, name in _DISPENSABLE.items():
        is_named = re.search(rf"(?<![\w.]){re.escape(word)}(?![\w])", text)
        if is_named and name in sent and name not in refused:
            options = {**prompt.options, "refused_members": (*refused, name)}
            return replace(prompt, options=options)
    return None


def _sent_names(prompt: Prompt) -> set[str]:
    """Parameters that were chosen, and members that we send by default."""
    chosen = {name for name, value in prompt.parameters.items() if value not in (None, "")}
    body = msgspec.json.decode(dialect.request(prompt).body, type=JsonObject)
    return chosen | (body.keys() & {"include", "store", "stream_options"})


dialect = OpenAiResponsesDialect()
