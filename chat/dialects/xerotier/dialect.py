"""Xerotier: chat completions with research, artifacts, mockups and questions on the server."""

from dataclasses import replace
from typing import ClassVar

import msgspec

from chat.dialects.added_members import OVERRULED, holds
from chat.dialects.base import AssistantTurn, Prompt, Reply, UpstreamRequest
from chat.dialects.openai_chat.dialect import OpenAiChatDialect
from chat.dialects.openai_chat.parser import OpenAiChatParser
from chat.dialects.parameters import Parameter, Values, declared, read_options, read_parameters
from chat.dialects.reading import scrub
from chat.dialects.xerotier.history import with_replies
from chat.dialects.xerotier.parser import XerotierParser
from chat.events import ErrorInfo, Json, JsonObject
from chat.events.translation import gettext_noop

_DECLARED = declared("xerotier/parameters.toml", "openai_chat/parameters.toml")
CHANGED_BY_MODE = "The chosen mode changed the field {name} of the request."
# The parameters that chat completions do not have.
_OWN = tuple(parameter for parameter in _DECLARED.parameters if parameter.name in _DECLARED.own)


class XerotierDialect(OpenAiChatDialect):
    name: ClassVar[str] = "xerotier"
    label: ClassVar[str] = gettext_noop("Xerotier")
    help: ClassVar[str] = gettext_noop(
        "Chat completions with Xerotier’s research, deep think, artifacts, mockups and questions. "
        "The address ends in /<project>/<endpoint>/v1; the endpoint determines the model."
    )
    # The list belongs to the project, one level above the endpoint.
    models_path: ClassVar[str] = "/../../v1/models"
    parser_type: ClassVar[type[OpenAiChatParser]] = XerotierParser
    parameters: ClassVar[tuple[Parameter, ...]] = _DECLARED.parameters
    options: ClassVar[tuple[Parameter, ...]] = _DECLARED.options

    def request(self, prompt: Prompt) -> UpstreamRequest:
        options = read_options(self.options, prompt.options)
        own, others = _parted(prompt.parameters)
        chosen, notes = read_parameters(_OWN, own)
        turns = with_replies(prompt.turns, as_calls=options["resume_style"] == "tool_message")
        request = super().request(
            # Any name is accepted, because the endpoint decides; only an empty one is refused.
            replace(prompt, model=prompt.model or "default", turns=turns, parameters=others)
        )
        patches = [
            (_research(chosen), OVERRULED),
            (_mode(chosen.get("mode"), options.get("modes"), notes), CHANGED_BY_MODE),
            (_resumed(prompt, options.get("ask_id_member")), OVERRULED),
        ]
        body = request.body
        if any(patch for patch, _ in patches):
            members: JsonObject = msgspec.json.decode(body)
            for patch, note in patches:
                members = _changed(members, patch, note, notes)
            body = msgspec.json.encode(scrub(members))
        return replace(request, body=body, notes=(*request.notes, *notes))

    def after_refusal(self, prompt: Prompt, error: ErrorInfo) -> Prompt | None:
        """How a reply is sent back is not documented. If it is refused as the result of a call, it
        is sent as a normal message."""
        mended = super().after_refusal(prompt, error)
        if mended is not None or error.status not in (400, 422):
            return mended
        options = read_options(self.options, prompt.options)
        is_about_calls = "tool" in f"{error.param} {error.message}".lower()
        if options["resume_style"] != "tool_message" or not is_about_calls or not _replied(prompt):
            return None
        return replace(prompt, options={**prompt.options, "resume_style": "user_message"})


def _parted(parameters: Values) -> tuple[dict[str, object], dict[str, object]]:
    """The parameters of this dialect alone, and those of all chat completions."""
    own = {name: value for name, value in parameters.items() if name in _DECLARED.own}
    return own, {name: value for name, value in parameters.items() if name not in own}


def _research(chosen: Values) -> JsonObject:
    # The server's own tools are called x_web_search, x_fetch_url, …
    tools = [each.name for each in _OWN if each.name.startswith("x_") and chosen.get(each.name)]
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
        notes.append(f"The mode {name} was left out because this server has no such mode.")
        return {}
    return patch


def _resumed(prompt: Prompt, member: object) -> JsonObject:
    """The ids of the questions whose replies this request contains; for one question, just its
    id."""
    ids = [reply.ask_id for reply in _replied(prompt)]
    if not member or not ids:
        return {}
    return {str(member): ids[0] if len(ids) == 1 else ids}


def _replied(prompt: Prompt) -> tuple[Reply, ...]:
    """The replies with which the last answer continues."""
    last = prompt.turns[-1] if prompt.turns else None
    return last.replies if isinstance(last, AssistantTurn) else ()


def _changed(members: JsonObject, patch: JsonObject, note: str, notes: list[str]) -> JsonObject:
    """The patched members. Adds the note for each that the patch took something from."""
    merged: JsonObject = _merged(members, patch)
    lost = [name for name, value in members.items() if not holds(merged.get(name), value)]
    notes += [note.format(name=name) for name in lost]
    return merged


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
