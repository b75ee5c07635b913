"""The check of a tool's arguments and address while somebody types them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from django.utils.translation import gettext

from chat.core.errors import ActionRefused
from chat.rendering.components import name_of
from chat.tools.actions import read_schema
from chat.tools.http_definition import (
    METHODS_WITHOUT_BODY,
    arguments_of,
    check_address,
    check_places,
    places_in,
    required_in,
)

# Arguments that are listed; a form needs no more.
MOST_LISTED = 50
NAME_CHARACTERS = 64
DESCRIPTION_CHARACTERS = 160

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentLine:
    """An argument: its type, and the part of the request that its value goes to (empty without a request)."""

    name: str
    kind: str
    description: str
    is_required: bool
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionCheck:
    problems: list[str]
    arguments: list[ArgumentLine]


def check_definition(
    *, schema: str, method: str = "", address: str | None = None
) -> DefinitionCheck:
    """``address`` is ``None`` for a tool that is no request. Nothing is said of one that is still empty."""
    problems: list[str] = []
    found = _noted(problems, read_schema, schema)
    if address and _noted(problems, check_address, address) and found is not None:
        _noted(problems, lambda text: check_places(text, found or {}), address)
    lines = [] if found is None else list(_lines(found, method, address))
    return DefinitionCheck(problems=problems, arguments=lines)


def _noted(problems: list[str], check: Callable[[str], Value], text: str) -> Value | None:
    try:
        return check(text)
    except ActionRefused as refusal:
        problems.append(str(refusal))
        return None


def _lines(
    schema: Mapping[str, object], method: str, address: str | None
) -> Iterator[ArgumentLine]:
    required = required_in(schema)
    places = places_in(address or "")
    for name, rule in list(arguments_of(schema).items())[:MOST_LISTED]:
        yield ArgumentLine(
            name=name_of(name)[:NAME_CHARACTERS],
            kind=_kind_of(rule),
            description=name_of(str(rule.get("description") or ""))[:DESCRIPTION_CHARACTERS],
            is_required=name in required,
            place=_place_of(name, places, method) if address else "",
        )


def _kind_of(rule: Mapping[str, object]) -> str:
    if isinstance(rule.get("enum"), list):
        return gettext("one of a list")
    kind = rule.get("type")
    names: dict[object, str] = {
        "string": gettext("text"),
        "integer": gettext("whole number"),
        "number": gettext("number"),
        "boolean": gettext("yes or no"),
        "array": gettext("list"),
        "object": gettext("object"),
    }
    return names.get(kind, gettext("any value")) if isinstance(kind, str) else gettext("any value")


def _place_of(name: str, places: list[str], method: str) -> str:
    if name in places:
        return gettext("in the address")
    return (
        gettext("in the query") if method in METHODS_WITHOUT_BODY else gettext("in the JSON body")
    )
