"""Legacy completions: the conversation as one prompt, and the text that follows it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import msgspec
from msgspec import Struct

from chat.dialects.base import Dialect, Parser, Prompt, UpstreamRequest
from chat.dialects.history import left_out
from chat.dialects.openai import request_members as wire
from chat.dialects.openai_chat.parser import OpenAiChatParser, Saying
from chat.dialects.openai_completions.prompt_templates import (
    render,
    template_of,
)
from chat.dialects.parameters import Parameter, declared, read_options, read_parameters
from chat.dialects.reading import scrub
from chat.events import ErrorInfo, Json, JsonObject
from chat.events.translation import gettext_noop
from chat.wire.sse import Frame

_DECLARED = declared("openai_completions/parameters.toml")

# Chat parameters that few servers know here.
_FEW_KNOW: Mapping[str, frozenset[str]] = {
    "reasoning_effort": frozenset(("fireworks",)),
    "response_format": frozenset(("fireworks", "vllm")),
}


class _QuickChoice(Struct, forbid_unknown_fields=True):
    text: str
    index: int = 0
    finish_reason: None = None
    logprobs: None = None


class _QuickChunk(Struct, forbid_unknown_fields=True):
    """Nearly every chunk of a long answer; other chunks are parsed by the general code."""

    choices: tuple[_QuickChoice]
    id: str = ""
    object: str = ""
    created: int | float | None = None
    model: str = ""
    service_tier: str | None = None
    system_fingerprint: str | None = None
    provider: str | None = None
    usage: None = None


_quick_decoder = msgspec.json.Decoder(_QuickChunk)


class CompletionsParser(OpenAiChatParser):
    """Chunks whose choices have ``text`` where those of a chat have a delta. A server that answers
    as a chat is understood as well."""

    text_members: ClassVar[frozenset[str]] = OpenAiChatParser.text_members | {"text"}

    def delta_of(self, entry: JsonObject) -> Json:
        return {"content": entry["text"]} if entry.get("text") else super().delta_of(entry)

    def native_turn(self) -> JsonObject | None:
        """The text as it came, including marks of reasoning."""
        turn = super().native_turn()
        return {"text": turn.get("content") or ""} if turn else None

    def read_quickly(self, frame: Frame) -> Saying | None:
        if frame.event is not None:
            return None
        try:
            chunk = _quick_decoder.decode(frame.data)
        except (msgspec.DecodeError, UnicodeError):
            return None
        entry = chunk.choices[0]
        choice = self.known_choice(chunk, entry.index)
        return None if choice is None else ((choice, "content"), entry.text)


class OpenAiCompletionsDialect(Dialect):
    name: ClassVar[str] = "openai_completions"
    label: ClassVar[str] = gettext_noop("OpenAI completions (legacy)")
    help: ClassVar[str] = gettext_noop(
        "OpenAI’s older API that continues a text, for base models and servers without a chat "
        "template. The conversation is sent as one prompt. The address usually ends in /v1."
    )
    models_path: ClassVar[str] = "/models"
    parameters: ClassVar[tuple[Parameter, ...]] = _DECLARED.parameters
    options: ClassVar[tuple[Parameter, ...]] = _DECLARED.options

    def request(self, prompt: Prompt) -> UpstreamRequest:
        options = read_options(self.options, prompt.options)
        parameters, notes = read_parameters(self.parameters, prompt.parameters)
        notes += left_out(prompt, takes_tools=self.takes_tools, takes_images=self.takes_images)
        template, found = template_of(options)
        body = {
            **wire.added_members(options),
            "model": prompt.model,
            "prompt": render(template, prompt.turns, system=prompt.system),
            "stream": prompt.stream,
        }
        if prompt.stream and options["stream_options"]:
            body["stream_options"] = {"include_usage": True}
        if options["perf_metrics"]:
            body["perf_metrics_in_response"] = True
        notes += [*found, *_place(body, parameters, options, template.stops)]
        return UpstreamRequest(
            path="/completions", body=msgspec.json.encode(scrub(body)), notes=tuple(notes)
        )

    def parser(self, *, model: str, endpoint: str = "", options: Mapping[str, object]) -> Parser:
        return CompletionsParser(
            dialect=self.name,
            model=model,
            endpoint=endpoint,
            options=read_options(self.options, options),
        )

    def after_refusal(self, prompt: Prompt, error: ErrorInfo) -> Prompt | None:
        is_refused = "stream_options" in f"{error.param} {error.message}"
        was_sent = read_options(self.options, prompt.options)["stream_options"]
        if error.status not in (400, 422) or not is_refused or not was_sent:
            return None
        return replace(prompt, options={**prompt.options, "stream_options": False})


def _place(
    body: JsonObject,
    parameters: dict[str, object],
    options: Mapping[str, object],
    stops: tuple[str, ...],
) -> list[str]:
    """The parameters, and the stop texts of the template before those of the user."""
    room = max(0, wire.MOST_STOP_TEXTS - len(stops))
    texts, notes = wire.stop_texts(parameters.pop("stop", None), room=room)
    if stops or texts:
        body["stop"] = [*stops, *texts][: wire.MOST_STOP_TEXTS]
    shape, found = wire.response_format(
        parameters.pop("response_format", None), parameters.pop("response_schema", None)
    )
    if shape is not None:
        parameters["response_format"] = shape
    return [*notes, *found, *wire.place(body, parameters, options, few_know=_FEW_KNOW)]


dialect = OpenAiCompletionsDialect()
