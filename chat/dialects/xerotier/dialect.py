"""Xerotier: chat completions with research, artifacts, mockups and questions on the server's side."""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import msgspec

from chat.dialects.base import (
    AssistantTurn,
    Parameter,
    Prompt,
    Reply,
    UpstreamRequest,
    read_options,
    read_parameters,
)
from chat.dialects.openai_chat.dialect import OpenAiChatDialect
from chat.dialects.openai_chat.parser import OpenAiChatParser
from chat.dialects.reading import scrub
from chat.dialects.xerotier.history import with_replies
from chat.dialects.xerotier.parser import XerotierParser
from chat.events import ErrorInfo, Json, JsonObject

# What the server's own tools are called, and what a person calls them.
RESEARCH_TOOLS: Mapping[str, str] = {
    "x_web_search": "Search the web",
    "x_fetch_url": "Read pages",
    "x_inspect_site": "Inspect sites",
    "x_code_search": "Search code",
    "x_repo_overview": "Look over repositories",
    "x_repo_read": "Read repositories",
    "x_calculator": "Calculate",
}
# Parameters of chat completions that say nothing about which provider is behind them.
_STANDARD = (
    *("temperature", "top_p", "max_tokens", "seed", "frequency_penalty", "presence_penalty"),
    *("reasoning_effort", "stop", "n", "tool_choice", "parallel_tool_calls", "response_format"),
    *("response_schema", "logprobs", "top_logprobs", "service_tier"),
)
_OWN_PARAMETERS = (
    Parameter(
        name="mode",
        label="Mode",
        kind="text",
        help="The name of one of the modes that an administrator has set up for this server.",
    ),
    *(
        Parameter(name=name, label=label, kind="boolean", help="A tool that the server runs.")
        for name, label in RESEARCH_TOOLS.items()
    ),
    Parameter(
        name="search_context_size",
        label="Depth of the search",
        kind="choice",
        choices=("low", "medium", "high"),
        help="How much of what is found the model gets to read.",
    ),
)
_OWN_OPTIONS = (
    Parameter(
        name="modes",
        label="Modes",
        kind="json",
        help='Named changes to the request, such as {"deep": {"some_member": true}}. People '
        "choose one by its name; its members are merged into the request, null takes one out.",
    ),
    Parameter(
        name="resume_style",
        label="How replies to questions go back",
        kind="choice",
        choices=("tool_message", "user_message"),
        default="tool_message",
        help="As the result of the call that asked, or as an ordinary message.",
    ),
    Parameter(
        name="ask_id_member",
        label="Member for the question's id",
        kind="text",
        help="Where the request that resumes an answer names the question. Empty: nowhere.",
    ),
    Parameter(
        name="mockup_prefix",
        label="Address of mockup files",
        kind="text",
        help="What comes before /<bundle>/<path>: an address, or a path on the same server. Empty: "
        "the base URL without its /v1, plus /v1/mockups.",
    ),
)
_OWN_NAMES = frozenset(parameter.name for parameter in _OWN_PARAMETERS)


class XerotierDialect(OpenAiChatDialect):
    name: ClassVar[str] = "xerotier"
    label: ClassVar[str] = "Xerotier"
    help: ClassVar[str] = (
        "Chat completions with Xerotier's research, deep think, artifacts, mockups and questions. "
        "The base URL ends in /<project>/<endpoint>/v1; the endpoint decides which model answers."
    )
    # The list belongs to the project, one step above the endpoint.
    models_path: ClassVar[str] = "/../../v1/models"
    parser_type: ClassVar[type[OpenAiChatParser]] = XerotierParser
    parameters: ClassVar[tuple[Parameter, ...]] = (
        *_OWN_PARAMETERS,
        *(known for known in OpenAiChatDialect.parameters if known.name in _STANDARD),
    )
    options: ClassVar[tuple[Parameter, ...]] = (*_OWN_OPTIONS, *OpenAiChatDialect.options)

    def request(self, prompt: Prompt) -> UpstreamRequest:
        options = read_options(self.options, prompt.options)
        own, others = _parted(prompt.parameters)
        chosen, notes = read_parameters(_OWN_PARAMETERS, own)
        turns = with_replies(prompt.turns, as_calls=options["resume_style"] == "tool_message")
        request = super().request(
            # Any name does: the endpoint decides, but an empty one is refused.
            replace(prompt, model=prompt.model or "default", turns=turns, parameters=others)
        )
        patches = [
            _research(chosen),
            _mode(chosen.get("mode"), options.get("modes"), notes),
            _resumed(prompt, options.get("ask_id_member")),
        ]
        return replace(
            request,
            body=_patched(request.body, patches),
            notes=(*request.notes, *notes),
        )

    def after_refusal(self, prompt: Prompt, error: ErrorInfo) -> Prompt | None:
        """How a reply goes back is not documented: where it is refused as the result of a call,
        it goes back as an ordinary message."""
        mended = super().after_refusal(prompt, error)
        if mended is not None or error.status not in (400, 422):
            return mended
        options = read_options(self.options, prompt.options)
        is_about_calls = "tool" in f"{error.param} {error.message}".lower()
        if options["resume_style"] != "tool_message" or not is_about_calls or not _replied(prompt):
            return None
        return replace(prompt, options={**prompt.options, "resume_style": "user_message"})


def _parted(
    parameters: Mapping[str, object],
) -> tuple[dict[str, object], dict[str, object]]:
    """The parameters of this dialect alone, and those of all chat completions."""
    own = {name: value for name, value in parameters.items() if name in _OWN_NAMES}
    return own, {name: value for name, value in parameters.items() if name not in own}


def _research(chosen: Mapping[str, object]) -> JsonObject:
    tools = [name for name in RESEARCH_TOOLS if chosen.get(name)]
    size = chosen.get("search_context_size")
    options: JsonObject = {} if size is None else {"search_context_size": size}
    if tools:
        options["x_tools"] = tools
    return {"web_search_options": options} if options else {}


def _mode(name: object, modes: object, notes: list[str]) -> JsonObject:
    if not name:
        return {}
    patch = modes.get(name) if isinstance(modes, dict) else None
    if not isinstance(patch, dict):
        notes.append(f"The mode {name} was left out: this server has no mode of that name.")
        return {}
    return patch


def _resumed(prompt: Prompt, member: object) -> JsonObject:
    """The ids of the questions whose replies this request brings; of one alone, just it."""
    ids = [reply.ask_id for reply in _replied(prompt)]
    if not member or not ids:
        return {}
    return {str(member): ids[0] if len(ids) == 1 else ids}


def _replied(prompt: Prompt) -> tuple[Reply, ...]:
    """The replies with which the last answer goes on."""
    last = prompt.turns[-1] if prompt.turns else None
    return last.replies if isinstance(last, AssistantTurn) else ()


def _patched(body: bytes, patches: list[JsonObject]) -> bytes:
    if not any(patches):
        return body
    members: Json = msgspec.json.decode(body)
    for patch in patches:
        members = _merged(members, patch)
    return msgspec.json.encode(scrub(members))


def _merged(value: Json, patch: Json) -> Json:
    """A JSON merge patch (RFC 7396): objects member by member, ``null`` removes one."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for name, change in patch.items():
        if change is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), change)
    return merged


dialect = XerotierDialect()
