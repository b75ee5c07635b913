"""OpenAI's chat completions: requests, and the parser of answers."""

from dataclasses import replace
from typing import ClassVar

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
from chat.dialects.openai import request_members as wire
from chat.dialects.openai_chat.messages import build_messages
from chat.dialects.openai_chat.parser import OpenAiChatParser
from chat.dialects.parameters import (
    Parameter,
    Values,
    declared,
    not_sent,
    read_options,
    read_parameters,
)
from chat.events import ErrorInfo, JsonObject
from chat.events.translation import gettext_noop

_DECLARED = declared("openai_chat/parameters.toml")

_REASONING_IS_MISSING = ("passed back", "must be", "missing", "required")


class OpenAiChatDialect(Dialect):
    """A request is made in steps that a dialect which extends this one may replace:
    ``request_options``, ``members`` (its body), ``conversation``, ``tool_members``,
    ``place_parameters`` and ``request_headers``. Each may add sentences to the ``notes`` of the
    request."""

    name: ClassVar[str] = "openai_chat"
    label: ClassVar[str] = gettext_noop("OpenAI chat completions")
    help: ClassVar[str] = gettext_noop(
        "OpenAI’s Chat Completions API, offered by most servers. The address usually ends in /v1."
    )
    models_path: ClassVar[str] = "/models"
    takes_tools: ClassVar[bool] = True
    takes_parts = frozenset({Text, Image, Audio, Document})
    document_types = frozenset({"application/pdf"})
    path: ClassVar[str] = "/chat/completions"
    parser_type: ClassVar[type[OpenAiChatParser]] = OpenAiChatParser
    # True if llama.cpp is asked how much of the prompt it has read.
    reports_progress: ClassVar[bool] = True
    parameters: ClassVar[tuple[Parameter, ...]] = _DECLARED.parameters
    options: ClassVar[tuple[Parameter, ...]] = _DECLARED.options

    def parameters_for(self, options: Values) -> tuple[Parameter, ...]:
        return wire.accepted(self.parameters, options)

    def request(self, prompt: Prompt) -> UpstreamRequest:
        options = self.request_options(prompt)
        parameters, notes = read_parameters(self.parameters_for(options), prompt.parameters)
        notes += self.left_out(prompt)
        body = {
            **self.members(prompt, options, notes),
            **self.tool_members(prompt.tools, options, parameters, notes),
        }
        headers = self.request_headers(options, notes)
        notes += self.place_parameters(body, parameters, options)
        notes += add_members(body, options)
        return self.sent(body, notes, headers)

    def request_options(self, prompt: Prompt) -> dict[str, object]:
        """The upstream's options with their defaults."""
        return read_options(self.options, prompt.options)

    def members(self, prompt: Prompt, options: Values, notes: list[str]) -> JsonObject:
        """The body without tools and parameters."""
        body: JsonObject = {
            "model": prompt.model,
            **self.conversation(prompt, options, notes),
            "stream": prompt.stream,
        }
        if prompt.stream and options["stream_options"]:
            body["stream_options"] = {"include_usage": True}
        if prompt.stream and options.get("extras") == "llama_cpp" and self.reports_progress:
            body["return_progress"] = True
        if options["perf_metrics"]:
            body["perf_metrics_in_response"] = True
        if options.get("user"):
            body["user"] = options["user"]
        return body

    def conversation(self, prompt: Prompt, options: Values, notes: list[str]) -> JsonObject:
        return {"messages": build_messages(prompt, options)}

    def tool_members(
        self,
        tools: tuple[ToolDefinition, ...],
        options: Values,
        parameters: dict[str, object],
        notes: list[str],
    ) -> JsonObject:
        """The tools and how they may be used, taken out of ``parameters``."""
        wishes = {
            name: parameters.pop(name, None) for name in ("tool_choice", "parallel_tool_calls")
        }
        if not tools:
            notes += not_sent(wishes, wire.NO_TOOLS)
            return {}
        if options["legacy_functions"]:
            notes += not_sent(wishes, "legacy function calls don’t have it")
            return {"functions": wire.legacy_functions(tools)}
        chosen, found = wire.tool_choice(wishes["tool_choice"], tools, options)
        notes += found
        members: JsonObject = {"tools": wire.wire_tools(tools)}
        if chosen is not None:
            members["tool_choice"] = chosen
        if wishes["parallel_tool_calls"] is not None:
            members["parallel_tool_calls"] = wishes["parallel_tool_calls"]
        return members

    def place_parameters(
        self, body: JsonObject, parameters: dict[str, object], options: Values
    ) -> list[str]:
        """Puts the chosen parameters into the body, in the form that the server knows."""
        texts, notes = wire.stop_texts(parameters.pop("stop", None))
        if texts:
            body["stop"] = texts
        limit = parameters.pop("max_tokens", None)
        if limit is not None:
            body[str(options["max_tokens_member"])] = limit
        shape, found = wire.response_format(
            parameters.pop("response_format", None), parameters.pop("response_schema", None)
        )
        if shape is not None:
            body["response_format"] = shape
        found += wire.place_logprobs(parameters)
        return [*notes, *found, *wire.place(body, parameters, options)]

    def request_headers(self, options: Values, notes: list[str]) -> dict[str, str]:
        """Headers of this request beside the credential."""
        return {}

    def parser(self, *, model: str, endpoint: str = "", options: Values) -> Parser:
        return self.parser_type(
            dialect=self.name,
            model=model,
            endpoint=endpoint,
            options={**read_options(self.options, options), "run_id": options.get("run_id")},
        )

    def after_refusal(self, prompt: Prompt, error: ErrorInfo) -> Prompt | None:
        if error.status not in (400, 422):
            return None
        mended = dict(prompt.options)
        _mend(mended, read_options(self.options, prompt.options), f"{error.param} {error.message}")
        return replace(prompt, options=mended) if mended != dict(prompt.options) else None


def _mend(options: dict[str, object], current: Values, text: str) -> None:
    """The options for another attempt after a refusal that says ``text``."""
    if "stream_options" in text:
        options["stream_options"] = False
    elif "max_completion_tokens" in text and "max_tokens_member" in current:
        options["max_tokens_member"] = "max_completion_tokens"
    elif current.get("replay_reasoning") == "never" and _wants_reasoning(text):
        options["replay_reasoning"] = "tool_turns"


def _wants_reasoning(text: str) -> bool:
    """DeepSeek in thinking mode refuses turns with tool calls that lack their reasoning."""
    return "reasoning_content" in text and any(words in text for words in _REASONING_IS_MISSING)


dialect = OpenAiChatDialect()
