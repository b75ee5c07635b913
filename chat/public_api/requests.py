"""Parses the body of ``POST /api/v1/chat``: LM Studio's members, and a few of our own. Pure
functions."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast
from uuid import UUID

from django.utils.translation import gettext, gettext_lazy

from chat.dialects.reading import NotJson, read_json, scrub
from chat.events import Json, JsonObject
from chat.public_api.errors import ApiError, invalid, quoted
from chat.rendering.figures import count
from chat.runs.public_events import run_of

# The limit of brackets, commas and strings in a body; schemas among its parameters have some
# thousands. Without a limit, a body of the size that pictures may have could contain millions: a
# gigabyte of small lists, and a minute of work.
MOST_MARKS = 30_000
# A message has no more items than this; pictures have a limit of their own.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramReply:
    """What a program gives for something that an answer waits for: the result of a tool, or the
    reply to a question. ``name`` is the id of the call or the question."""

    kind: Literal["tool_result", "answer"]
    name: str
    text: str = ""
    selected: tuple[str, ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict)
    is_error: bool = False
    is_declined: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One request with values of the right types; others check whether the values fit.

    ``parameters`` are LM Studio's by name; ``own_parameters`` those of the server's dialect.
    ``replies`` come alone, without text and pictures. ``None`` means that the request leaves it
    out.
    """

    model: str
    text: str = ""
    pictures: tuple[bytes, ...] = ()
    replies: tuple[ProgramReply, ...] = ()
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
    notes: tuple[str, ...] = ()


def read_request(body: bytes) -> ChatRequest:
    """Raises ``ApiError``."""
    data = _object(body)
    texts, pictures, replies = _input(data)
    parameters = {name: data[name] for name in _PARAMETERS if data.get(name) is not None}
    for name, value in parameters.items():
        _PARAMETERS[name](name, value)
    return ChatRequest(
        model=_model(data),
        text="\n\n".join(texts),
        pictures=tuple(pictures),
        replies=tuple(replies),
        system_prompt=_text(data, "system_prompt", longest=SYSTEM_PROMPT_LENGTH),
        integrations=_integrations(data),
        parameters=parameters,
        own_parameters=_members(data, "parameters"),
        streams=_flag(data, "stream", default=False),
        stores=_flag(data, "store", default=True),
        previous=_previous(data),
        visibility=_visibility(data),
        project=_project(data),
        stops_on_disconnect=_flag(data, "stop_on_disconnect", default=False),
        notes=tuple(_unknown(data)),
    )


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
    """Checked before the body is parsed. What is inside of strings does not count."""
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


# --- members ------------------------------------------------------------------------------


def _wrong(message: str, name: str, *, code: str = "invalid_type") -> ApiError:
    """``message`` has the placeholder ``name``."""
    return invalid(message % {"name": name}, param=name, code=code)


def _missing(name: str) -> ApiError:
    message = gettext('"%(name)s" is required.') % {"name": name}
    return invalid(message, param=name, code="missing_required_parameter")


def _model(data: JsonObject) -> str:
    value = data.get("model")
    if value is None:
        raise _missing("model")
    if not isinstance(value, str) or not value.strip():
        raise invalid(gettext('"model" must be the key of a model.'), param="model")
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


def _text(data: JsonObject, name: str, *, longest: int) -> str | None:
    value = data.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise _wrong(gettext('"%(name)s" must be a string.'), name)
    if len(value) > longest:
        message = gettext('"%(name)s" is longer than %(limit)s characters.')
        values = {"name": name, "limit": count(longest)}
        raise invalid(message % values, param=name, code="too_big")
    return value


def _flag(data: JsonObject, name: str, *, default: bool) -> bool:
    value = data.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise _wrong(gettext('"%(name)s" must be true or false.'), name)
    return value


def _members(data: JsonObject, name: str) -> JsonObject:
    value = data.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong(gettext('"%(name)s" must be an object.'), name)
    return value


def _integrations(data: JsonObject) -> tuple[Json, ...] | None:
    value = data.get("integrations")
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > MOST_INTEGRATIONS:
        message = gettext('"integrations" must be an array of up to %(count)d entries.')
        raise invalid(message % {"count": MOST_INTEGRATIONS}, param="integrations")
    return tuple(value)


def _previous(data: JsonObject) -> UUID | None:
    name = "previous_response_id"
    value = data.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value.startswith("resp_"):
        message = gettext('"%(name)s" must start with "resp_".')
        raise _wrong(message, name, code="invalid_string")
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


def _visibility(data: JsonObject) -> Visibility | None:
    value = data.get("visibility")
    in_project = data.get("project") is not None
    shared = "project" if in_project else "team"
    if value is None or value == "private" or value == shared:
        return cast(Visibility | None, value)
    if in_project:
        message = gettext(
            '"visibility" of a conversation in a project must be "private" or "project".'
        )
    else:
        message = gettext('"visibility" must be "private" or "team".')
    raise invalid(message, param="visibility", code="invalid_value")


def _project(data: JsonObject) -> UUID | None:
    value = data.get("project")
    if value is None:
        return None
    if not isinstance(value, str):
        raise _wrong(gettext('"%(name)s" must be a string.'), "project")
    try:
        return UUID(value)
    except ValueError:
        raise unknown_project() from None


def unknown_project() -> ApiError:
    return ApiError(404, gettext("Project not found."), code="project_not_found", param="project")


def _number(name: str, value: Json) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(gettext('"%(name)s" must be a number.'), name)


def _count(name: str, value: Json) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _wrong(gettext('"%(name)s" must be a whole number, 0 or more.'), name)


REASONING = ("off", "low", "medium", "high", "on")


def _reasoning(name: str, value: Json) -> None:
    if value not in REASONING:
        message = gettext('"%(name)s" must be one of: %(options)s.')
        values = {"name": name, "options": ", ".join(REASONING)}
        raise invalid(message % values, param=name, code="invalid_value")


_PARAMETERS: Mapping[str, Callable[[str, Json], None]] = {
    "temperature": _number,
    "top_p": _number,
    "top_k": _count,
    "min_p": _number,
    "repeat_penalty": _number,
    "max_output_tokens": _count,
    "context_length": _count,
    "reasoning": _reasoning,
}
_KNOWN = frozenset(_PARAMETERS) | {
    *("model", "input", "system_prompt", "integrations", "stream", "store"),
    *("previous_response_id", "parameters", "visibility", "project", "stop_on_disconnect"),
}


def _unknown(data: JsonObject) -> list[str]:
    """A note for each member that is not known here."""
    names = [name for name in data if name not in _KNOWN][:MOST_NOTES]
    shown = ("".join(filter(str.isprintable, name))[:NAME_LENGTH] for name in names)
    return [UNKNOWN_MEMBER % {"name": name} for name in shown]


# --- the input --------------------------------------------------------------------------------


class _Input:
    """The sum of the items of an input."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.pictures: list[bytes] = []
        self.replies: list[ProgramReply] = []


def _input(data: JsonObject) -> tuple[list[str], list[bytes], list[ProgramReply]]:
    given = data.get("input")
    if given is None:
        raise _missing("input")
    if isinstance(given, str):
        return [given], [], []
    if not isinstance(given, list) or not given:
        raise _bad_input(gettext("The input must be a string or an array of items."))
    if len(given) > MOST_ITEMS:
        raise _bad_input(
            gettext("The input can have up to %(count)d items.") % {"count": MOST_ITEMS}
        )
    found = _Input()
    for item in given:
        reader = _READERS.get(item.get("type")) if _has_type(item) else None
        if reader is None:
            message = gettext('The "type" of an input item must be one of: %(types)s.')
            raise _bad_input(message % {"types": ", ".join(_READERS)})
        reader(found, item)
    if found.replies and (found.texts or found.pictures):
        raise _bad_input(gettext("Tool results and replies must be sent without text or images."))
    return found.texts, found.pictures, found.replies


def _has_type(item: Json) -> bool:
    return isinstance(item, dict) and isinstance(item.get("type"), str)


def _bad_input(message: str) -> ApiError:
    return invalid(message, param="input", code="invalid_union")


def _text_item(found: _Input, item: JsonObject) -> None:
    if not isinstance(item.get("content"), str):
        raise _bad_input(gettext('A "text" item needs "content", a string.'))
    found.texts.append(item["content"])


def _image_item(found: _Input, item: JsonObject) -> None:
    url = item.get("data_url")
    head, comma, data = url.partition(",") if isinstance(url, str) else ("", "", "")
    if not (comma and head.startswith("data:image/") and head.endswith(";base64")):
        raise _bad_input(
            gettext('An "image" item needs "data_url", a base64 data URL of an image.')
        )
    try:
        found.pictures.append(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        raise _bad_input(gettext('The "data_url" of an "image" item isn’t valid base64.')) from None


def _result_item(found: _Input, item: JsonObject) -> None:
    if not isinstance(item.get("call_id"), str) or not isinstance(item.get("content"), str):
        raise _bad_input(
            gettext('A "tool_result" item needs "call_id" and "content", both strings.')
        )
    found.replies.append(
        ProgramReply(
            kind="tool_result",
            name=item["call_id"],
            text=item["content"],
            is_error=item.get("is_error") is True,
            is_declined=item.get("declined") is True,
        )
    )


def _answer_item(found: _Input, item: JsonObject) -> None:
    content, selected, fields = (
        item.get("content", ""),
        item.get("selected", []),
        item.get("fields", {}),
    )
    are_texts = isinstance(content, str) and isinstance(item.get("ask_id"), str)
    if not are_texts or not _are_texts(selected, list) or not _are_texts(fields, dict):
        raise _bad_input(
            gettext(
                'An "answer" item needs "ask_id", and "content", "selected" (an array of strings) or '
                '"fields" (an object of strings).'
            )
        )
    found.replies.append(
        ProgramReply(
            kind="answer",
            name=item["ask_id"],
            text=content,
            selected=tuple(selected),
            fields=dict(fields),
            is_declined=item.get("declined") is True,
        )
    )


def _are_texts(value: Any, kind: type[list[Any]] | type[dict[Any, Any]]) -> bool:
    if not isinstance(value, kind):
        return False
    values = value.values() if isinstance(value, dict) else value
    return all(isinstance(each, str) for each in values)


_READERS: Mapping[str, Callable[[_Input, JsonObject], None]] = {
    "text": _text_item,
    "image": _image_item,
    "tool_result": _result_item,
    "answer": _answer_item,
}
