"""The Messages API: requests, and the parser of answers."""

import re
from dataclasses import replace
from typing import ClassVar, cast

from chat.dialects.anthropic_messages.history import takes_blocks
from chat.dialects.anthropic_messages.parser import AnthropicParser
from chat.dialects.anthropic_messages.request import DECLARED, accepted, build_body
from chat.dialects.base import (
    AssistantTurn,
    Dialect,
    Document,
    Image,
    Parser,
    Prompt,
    Text,
    UpstreamRequest,
)
from chat.dialects.parameters import Parameter, Values, read_options
from chat.dialects.thinking import Mode
from chat.events import ErrorInfo
from chat.events.translation import gettext_noop

SIGNATURES_LEFT_OUT = gettext_noop(
    "Earlier thinking was left out because the server rejected its signature, which is from "
    "another model."
)

# "max_tokens: 90000 > 64000, which is the maximum allowed number of output tokens for …"
_LIMIT = re.compile(r"max_tokens\D{0,20}\d+\s*>\s*(\d+)")
# These are tried in this order: the first one that the refusal names is left out.
_DISPENSABLE = (
    "temperature",
    "top_p",
    "top_k",
    "effort",
    "stop_sequences",
    "thinking",
)


class AnthropicMessagesDialect(Dialect):
    name: ClassVar[str] = "anthropic_messages"
    label: ClassVar[str] = gettext_noop("Anthropic Messages")
    help: ClassVar[str] = gettext_noop(
        "Anthropic’s Messages API, also offered by Friendli, Fireworks, LM Studio and others. "
        "The address usually ends in /v1. Choose the provider in the advanced options."
    )
    path: ClassVar[str] = "/messages"
    # Without this, Anthropic sends twenty models at a time; other servers have no pages.
    models_path: ClassVar[str] = "/models?limit=1000"
    takes_tools: ClassVar[bool] = True
    takes_parts = frozenset({Text, Image, Document})
    document_types = frozenset({"application/pdf", "text/plain"})
    parameters: ClassVar[tuple[Parameter, ...]] = DECLARED.parameters
    options: ClassVar[tuple[Parameter, ...]] = DECLARED.options

    def sends_document(self, media_type: str, options: Values) -> bool:
        server = str(read_options(self.options, options)["server"])
        return takes_blocks(server, "document") and super().sends_document(media_type, options)

    def headers(self, key: str, options: Values | None = None) -> dict[str, str]:
        values = read_options(self.options, options or {})
        found = {"anthropic-version": str(values["version"])}
        for name, header in (("beta", "anthropic-beta"), ("friendli_team", "X-Friendli-Team")):
            text = str(values.get(name, "")).strip()
            if text:
                found[header] = text
        if key:
            found |= _credential(key, values)
        return found

    def parameters_for(self, options: Values) -> tuple[Parameter, ...]:
        return accepted(options)

    def request(self, prompt: Prompt) -> UpstreamRequest:
        body, notes = build_body(prompt)
        notes += self.left_out(prompt)
        if prompt.options.get("without_signatures"):
            notes.append(SIGNATURES_LEFT_OUT)
        return self.sent(body, notes)

    def parser(self, *, model: str, endpoint: str = "", options: Values) -> Parser:
        return AnthropicParser(
            dialect=self.name,
            model=model,
            endpoint=endpoint,
            run_id=str(options.get("run_id") or ""),
            hides_thinking=options.get("thinking_display") == "omitted",
            think_mode=cast(Mode, read_options(self.options, options)["inline_think"]),
        )

    def after_refusal(self, prompt: Prompt, error: ErrorInfo) -> Prompt | None:
        """Models accept different parameters, and no list tells which, so what was refused is left
        out."""
        if error.status not in (400, 422):
            return None
        text = f"{error.param} {error.message}"
        limit = _LIMIT.search(text)
        if limit:
            return _with_limit(prompt, int(limit[1]))
        if "signature" in text.lower() and any(_is_native(turn) for turn in prompt.turns):
            return _without_signatures(prompt)
        return _without_parameter(prompt, text)


def _credential(key: str, options: Values) -> dict[str, str]:
    auth = options["auth"]
    if auth == "auto":
        is_theirs = options["server"] == "anthropic" or key.startswith("sk-ant-")
        auth = "x-api-key" if is_theirs else "bearer"
    return {"x-api-key": key} if auth == "x-api-key" else {"Authorization": f"Bearer {key}"}


# --- after a refusal ---------------------------------------------------------------------


def _is_native(turn: object) -> bool:
    return isinstance(turn, AssistantTurn) and turn.is_native


def _with_limit(prompt: Prompt, limit: int) -> Prompt | None:
    """The longest answer that the model allows."""
    if prompt.options.get("most_tokens") == limit or limit < 1:
        return None
    return replace(prompt, options={**prompt.options, "most_tokens": limit})


def _without_signatures(prompt: Prompt) -> Prompt:
    turns = tuple(
        replace(turn, is_native=False) if isinstance(turn, AssistantTurn) else turn
        for turn in prompt.turns
    )
    return replace(prompt, turns=turns, options={**prompt.options, "without_signatures": True})


def _without_parameter(prompt: Prompt, text: str) -> Prompt | None:
    known = prompt.options.get("refused_parameters")
    refused = known if isinstance(known, tuple) else ()
    for name in _DISPENSABLE:
        is_sent = prompt.parameters.get(name) not in (None, "") and name not in refused
        if is_sent and re.search(rf"\b{name}\b", text):
            return replace(
                prompt, options={**prompt.options, "refused_parameters": (*refused, name)}
            )
    return None


dialect = AnthropicMessagesDialect()
