"""Parses the body of ``POST /api/v1/chat``: LM Studio's members, and a few of our own. Pure
functions."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, cast, get_args, get_type_hints
from uuid import UUID

import msgspec
from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy
from msgspec import Meta, Struct

from chat.dialects.reading import NotJson, read_json, scrub
from chat.events import Json, JsonObject
from chat.models import visibilities
from chat.public_api.errors import ApiError, invalid, quoted
from chat.rendering.figures import count
from chat.runs.public_events import run_of

# Brackets, commas and strings in a body; schemas have some thousands. A body with room for pictures
# could contain millions: a gigabyte of small lists, and a minute of work.
MOST_MARKS = 30_000
# Items of a message; pictures have a limit of their own.
MOST_ITEMS = 256
MOST_INTEGRATIONS = 128
SYSTEM_PROMPT_LENGTH = 100_000
MODEL_LENGTH = 400
MOST_NOTES = 20
NAME_LENGTH = 60

Visibility = Literal["private", "team", "project"]
# An unclosed string ends at the end of the text, so each byte is looked at once.
_STRING = re.compile(rb'"[^"\\]*+(?:\\(?:.|\Z)[^"\\]*+)*+(?:"|\Z)', re.DOTALL)
UNKNOWN_MEMBER = gettext_lazy("Unknown parameter “%(name)s” was ignored.")


# The error for an item of the wrong type is ``must``.


class TextItem(Struct):
    must: ClassVar = gettext_lazy('A "text" item needs "content", a string.')
    content: str


class ImageItem(Struct):
    must: ClassVar = gettext_lazy(
        'An "image" item needs "data_url", a base64 data URL of an image.'
    )
    data_url: Annotated[str, Meta(pattern="^data:image/[^,]*;base64,")]


class ToolResult(Struct):
    """The result of an open call, whose id is ``name``. Flags are set by ``true`` alone."""

    must: ClassVar = gettext_lazy(
        'A "tool_result" item needs "call_id" and "content", both strings.'
    )
    name: str = msgspec.field(name="call_id")
    text: str = msgspec.field(name="content")
    is_error: Any = False
    declined: Any = False


class Reply(Struct):
    """The reply to an open question, whose id is ``name``."""

    must: ClassVar = gettext_lazy(
        'An "answer" item needs "ask_id", and "content", "selected" (an array of strings) or '
        '"fields" (an object of strings).'
    )
    name: str = msgspec.field(name="ask_id")
    text: str = msgspec.field(name="content", default="")
    selected: list[str] = []
    fields: dict[str, str] = {}
    declined: Any = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One request with values of the right types; the values are checked when it is sent.

    ``parameters`` are LM Studio's by name; ``own_parameters`` those of the server's dialect.
    ``replies`` exclude text and pictures. ``None`` means that the request leaves the member out.
    """

    model: str
    text: str = ""
    pictures: tuple[bytes, ...] = ()
    replies: tuple[ToolResult | Reply, ...] = ()
    system_prompt: str | None = None
    integrations: tuple[Json, ...] | None = None
    parameters: Mapping[str, Json] = field(default_factory=dict)
    own_parameters: Mapping[str, Json] = field(default_factory=dict)
    streams: bool = False
    stores: bool = True
    previous: UUID | None = None
    visibility: Visibility | None = None
    project: UUID | None = None
    stops_on_disconnect: bool = False
    # True if Tributary runs the tools and the response follows, or the client gets the calls.
    runs_tools: bool | None = None
    notes: tuple[str, ...] = ()


# --- members ------------------------------------------------------------------------------


Number: TypeAlias = int | float
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Reasoning: TypeAlias = Literal["off", "low", "medium", "high", "on"]
ModelKey: TypeAlias = Annotated[str, Meta(pattern=r"\S")]
ResponseId: TypeAlias = Annotated[str, Meta(pattern="^resp_")]
Integrations: TypeAlias = Annotated[list[Any], Meta(max_length=MOST_INTEGRATIONS)]
Input: TypeAlias = str | Annotated[list[Any], Meta(min_length=1)]


class _Parameters(Struct, kw_only=True):
    """LM Studio's parameters of an answer."""

    temperature: Number | None = None
    top_p: Number | None = None
    top_k: Count | None = None
    min_p: Number | None = None
    repeat_penalty: Number | None = None
    max_output_tokens: Count | None = None
    context_length: Count | None = None
    reasoning: Reasoning | None = None


class _Body(_Parameters, kw_only=True):
    """All members. One that is ``null`` counts as left out."""

    model: ModelKey
    input: Input
    system_prompt: str | None = None
    integrations: Integrations | None = None
    stream: bool = False
    store: bool = True
    previous_response_id: ResponseId | None = None
    parameters: dict[str, Any] = {}
    # The possible values depend on the project.
    visibility: Any = None
    project: str | None = None
    stop_on_disconnect: bool = False
    run_tools: bool | None = None


_TYPES = get_type_hints(_Body, include_extras=True)
# The error for a member of the wrong type.
_OF_TYPE: Mapping[Any, str | Promise] = {
    ModelKey: gettext_lazy('"model" must be the key of a model.'),
    Input: gettext_lazy("The input must be a string or an array of items."),
    Integrations | None: gettext_lazy(
        '"integrations" must be an array of up to %(count)d entries.'
    ),
    ResponseId | None: gettext_lazy('"%(name)s" must start with "resp_".'),
    Reasoning | None: gettext_lazy('"%(name)s" must be one of: %(options)s.'),
    Number | None: gettext_lazy('"%(name)s" must be a number.'),
    Count | None: gettext_lazy('"%(name)s" must be a whole number, 0 or more.'),
    str | None: gettext_lazy('"%(name)s" must be a string.'),
    bool: gettext_lazy('"%(name)s" must be true or false.'),
    bool | None: gettext_lazy('"%(name)s" must be true or false.'),
    dict[str, Any]: gettext_lazy('"%(name)s" must be an object.'),
    Any: "",
}
_SENTENCES = {name: _OF_TYPE[kind] for name, kind in _TYPES.items()}
_CODES = {
    "input": "invalid_union",
    "previous_response_id": "invalid_string",
    "reasoning": "invalid_value",
}


def read_request(body: bytes) -> ChatRequest:
    """The parsed request. Raises ``ApiError``."""
    data = _object(body)
    said = _body(data)
    texts, pictures, replies = _input(said.input)
    parameters = {name: getattr(said, name) for name in _Parameters.__struct_fields__}
    return ChatRequest(
        model=_model(said.model),
        text="\n\n".join(texts),
        pictures=tuple(pictures),
        replies=tuple(replies),
        system_prompt=_system_prompt(said.system_prompt),
        integrations=None if said.integrations is None else tuple(said.integrations),
        parameters={name: value for name, value in parameters.items() if value is not None},
        own_parameters=said.parameters,
        streams=said.stream,
        stores=said.store,
        previous=_previous(said.previous_response_id),
        visibility=_visibility(said),
        project=_project(said.project),
        stops_on_disconnect=said.stop_on_disconnect,
        runs_tools=said.run_tools,
        notes=tuple(_unknown(data)),
    )


def _body(data: JsonObject) -> _Body:
    given = {name: data[name] for name in _TYPES if data.get(name) is not None}
    for name in ("model", "input"):
        if name not in given:
            message = gettext('"%(name)s" is required.') % {"name": name}
            raise invalid(message, param=name, code="missing_required_parameter")
    for name, value in given.items():
        try:
            msgspec.convert(value, _TYPES[name])
        except msgspec.ValidationError:
            raise _wrong(name) from None
    return _Body(**given)


def _wrong(name: str) -> ApiError:
    values = {"name": name, "count": MOST_INTEGRATIONS, "options": ", ".join(get_args(Reasoning))}
    code = _CODES.get(name, "invalid_type")
    return invalid(str(_SENTENCES[name]) % values, param=name, code=code)


def _object(body: bytes) -> JsonObject:
    if _is_sprawling(body):
        raise _no_json()
    try:
        value, _ = read_json(body.decode("utf-8"))
    except UnicodeDecodeError:
        raise invalid(gettext("The body isn’t UTF-8."), param=None, code="invalid_json") from None
    except NotJson:
        raise _no_json() from None
    if not isinstance(value, dict):
        raise invalid(gettext("The body must be a JSON object."), param=None)
    return dict(scrub(value))


def _no_json() -> ApiError:
    message = gettext("The body isn’t valid JSON, is nested too deeply, or has too many values.")
    return invalid(message, param=None, code="invalid_json")


def _is_sprawling(body: bytes) -> bool:
    """Returns whether an unparsed body has too many brackets, commas and strings. The content of strings
    does not count."""
    if _brackets_and_commas(body, 0, len(body)) <= MOST_MARKS:
        return False
    count = end = 0
    for string in _STRING.finditer(body):
        count += 1 + _brackets_and_commas(body, end, string.start())
        end = string.end()
        if count > MOST_MARKS:
            return True
    return count + _brackets_and_commas(body, end, len(body)) > MOST_MARKS


def _brackets_and_commas(body: bytes, start: int, end: int) -> int:
    return sum(body.count(mark, start, end) for mark in (b",", b"[", b"{"))


# --- values -------------------------------------------------------------------------------


def _model(value: str) -> str:
    if len(value) > MODEL_LENGTH or not value.isprintable():
        raise unknown_model(value)
    return value.strip()


def unknown_model(key: str) -> ApiError:
    return ApiError(
        404,
        gettext("Model not found: %(key)s") % {"key": quoted(key)},
        code="model_not_found",
        param="model",
    )


def _system_prompt(value: str | None) -> str | None:
    if value is not None and len(value) > SYSTEM_PROMPT_LENGTH:
        name = "system_prompt"
        message = gettext('"%(name)s" is longer than %(limit)s characters.')
        values = {"name": name, "limit": count(SYSTEM_PROMPT_LENGTH)}
        raise invalid(message % values, param=name, code="too_big")
    return value


def _previous(value: str | None) -> UUID | None:
    if value is None:
        return None
    run_id = run_of(value)
    if run_id is None:
        raise unknown_response()
    return run_id


def unknown_response() -> ApiError:
    return ApiError(
        404,
        gettext("Response not found."),
        code="previous_response_not_found",
        param="previous_response_id",
    )


def _visibility(said: _Body) -> Visibility | None:
    value = said.visibility
    in_project = said.project is not None
    if value is None or value in visibilities(in_project=in_project):
        return cast(Visibility | None, value)
    if in_project:
        message = gettext(
            '"visibility" of a conversation in a project must be "private" or "project".'
        )
    else:
        message = gettext('"visibility" must be "private" or "team".')
    raise invalid(message, param="visibility", code="invalid_value")


def _project(value: str | None) -> UUID | None:
    try:
        return None if value is None else UUID(value)
    except ValueError:
        raise unknown_project() from None


def unknown_project() -> ApiError:
    return ApiError(404, gettext("Project not found."), code="project_not_found", param="project")


def _unknown(data: JsonObject) -> list[str]:
    names = [name for name in data if name not in _TYPES][:MOST_NOTES]
    shown = ("".join(filter(str.isprintable, name))[:NAME_LENGTH] for name in names)
    return [UNKNOWN_MEMBER % {"name": name} for name in shown]


# --- the input --------------------------------------------------------------------------------


Item: TypeAlias = TextItem | ImageItem | ToolResult | Reply
_ITEMS: Mapping[str, type[Item]] = {
    "text": TextItem,
    "image": ImageItem,
    "tool_result": ToolResult,
    "answer": Reply,
}


def _input(
    given: str | list[Json],
) -> tuple[list[str], list[bytes], list[ToolResult | Reply]]:
    if isinstance(given, str):
        return [given], [], []
    if len(given) > MOST_ITEMS:
        raise _bad_input(
            gettext("The input can have up to %(count)d items.") % {"count": MOST_ITEMS}
        )
    items = [_item(each) for each in given]
    texts = [each.content for each in items if isinstance(each, TextItem)]
    pictures = [_picture(each) for each in items if isinstance(each, ImageItem)]
    replies = [each for each in items if isinstance(each, ToolResult | Reply)]
    if replies and (texts or pictures):
        raise _bad_input(gettext("Tool results and replies must be sent without text or images."))
    return texts, pictures, replies


def _item(given: Json) -> Item:
    name = given.get("type") if isinstance(given, dict) else None
    if not isinstance(name, str) or name not in _ITEMS:
        message = gettext('The "type" of an input item must be one of: %(types)s.')
        raise _bad_input(message % {"types": ", ".join(_ITEMS)})
    try:
        return msgspec.convert(given, _ITEMS[name])
    except msgspec.ValidationError:
        raise _bad_input(str(_ITEMS[name].must)) from None


def _bad_input(message: str) -> ApiError:
    return invalid(message, param="input", code="invalid_union")


def _picture(item: ImageItem) -> bytes:
    try:
        return base64.b64decode(item.data_url.partition(",")[2], validate=True)
    except (binascii.Error, ValueError):
        raise _bad_input(gettext('The "data_url" of an "image" item isn’t valid base64.')) from None
