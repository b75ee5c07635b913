"""Checks of the arguments that a person has edited, against the basics of a tool's schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from django.utils.translation import gettext

from chat.core.errors import ActionRefused
from chat.events import Json, JsonObject
from chat.rendering.figures import size

ARGUMENTS_BYTES = 64 * 1024

_TYPES: Mapping[str, Callable[[Json], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: (
        isinstance(value, int | float) and not isinstance(value, bool) and value == int(value)
    ),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "null": lambda value: value is None,
}


def check_arguments(arguments: Json, schema: Json) -> JsonObject:
    """The arguments. Raises ``ActionRefused`` if they are no JSON object, too large, lack a required
    member, or have a member of another type than the schema says. Nothing deeper is checked: the tool
    does."""
    if not isinstance(arguments, dict):
        raise ActionRefused(gettext("The arguments must be a JSON object."))
    try:
        body = msgspec.json.encode(arguments)
    except (TypeError, ValueError, RecursionError):
        raise ActionRefused(gettext("The arguments must be a JSON object.")) from None
    if len(body) > ARGUMENTS_BYTES:
        text = gettext("The arguments are larger than %(limit)s.")
        raise ActionRefused(text % {"limit": size(ARGUMENTS_BYTES)})
    if b"\\u0000" in body:
        raise ActionRefused(gettext("The arguments contain a character that can’t be stored."))
    rules = schema if isinstance(schema, dict) else {}
    _check_required(arguments, rules)
    _check_members(arguments, rules)
    return arguments


def _check_required(arguments: JsonObject, schema: JsonObject) -> None:
    required = schema.get("required")
    names = required if isinstance(required, list) else []
    missing = [str(name) for name in names if name not in arguments]
    if missing:
        raise ActionRefused(gettext("Fill in: %(fields)s.") % {"fields": ", ".join(missing)})


def _check_members(arguments: JsonObject, schema: JsonObject) -> None:
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    for name, value in arguments.items():
        if name not in known and schema.get("additionalProperties") is False:
            text = gettext("This tool has no argument named %(name)s.")
            raise ActionRefused(text % {"name": name[:100]})
        if not _fits(value, known.get(name)):
            text = gettext("The argument %(name)s doesn’t fit: the tool expects %(expected)s.")
            raise ActionRefused(text % {"name": name[:100], "expected": _expected(known[name])})


def _fits(value: Json, rule: Json) -> bool:
    if not isinstance(rule, dict):
        return True
    allowed = rule.get("enum")
    if isinstance(allowed, list) and value not in allowed:
        return False
    kinds = [kind for kind in _kinds_of(rule) if kind in _TYPES]
    return not kinds or any(_TYPES[kind](value) for kind in kinds)


def _kinds_of(rule: JsonObject) -> list[str]:
    kind = rule.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    return [str(each) for each in kinds if isinstance(each, str)]


def _expected(rule: JsonObject) -> str:
    allowed = rule.get("enum")
    if isinstance(allowed, list):
        return ", ".join(str(each)[:40] for each in allowed[:10])
    return ", ".join(_kinds_of(rule))
