"""The parameters and options of dialects: declared as data, and read from what users chose.

Each dialect lists its parameters and options in a TOML file; `declared` reads it.
"""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from chat.dialects.reading import NotJson, read_json

FOLDER = Path(__file__).parent
SHARED = "openai/parameters.toml"

# Chosen parameters, or the settings of a server, by name.
Values = Mapping[str, object]
# The members that differ, by parameter.
Limits = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A field of the request, or an option of an upstream; the form is built from it. ``None`` as
    the default means that it is not sent, and the upstream decides.

    Labels and help are in English; the caller translates them by ``gettext``.
    """

    name: str
    label: str
    # ``text`` is one line or a few words, ``lines`` a longer text, ``json`` an object or a list.
    kind: Literal["number", "integer", "choice", "text", "lines", "json", "boolean"]
    minimum: float | None = None
    maximum: float | None = None
    step: float | None = None
    choices: tuple[str, ...] = ()
    # How the form shows choices whose value does not say enough.
    choice_labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    default: object = None
    help: str = ""
    # Contains credentials: stored encrypted, never shown again, redacted wherever it would appear.
    is_secret: bool = False

    def choice_label(self, value: str) -> str:
        """A choice as the form shows it, in English; the caller translates it."""
        words = value.replace("_", " ")
        return self.choice_labels.get(value, words[:1].upper() + words[1:])

    def accepts(self, value: object) -> bool:
        """Returns whether the parameter's field can show a stored value. Dialects use one name for
        different things: the log probabilities of one are enabled, those of another are a
        number."""
        # In Python true and false are numbers too.
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number or self.kind not in ("number", "integer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """The declarations of one file. ``own`` are the names that it describes itself."""

    parameters: tuple[Parameter, ...]
    options: tuple[Parameter, ...]
    own: frozenset[str]


def declared(path: str, *further: str) -> Declared:
    """The parameters and options that a file of this package lists. A name without a table in the
    file is described in one of ``further``, else in the shared file."""
    tables: dict[str, Any] = {}
    for each in (SHARED, *further):
        tables |= _tables(each)
    own = _tables(path)
    tables |= own
    lists = tomllib.loads((FOLDER / path).read_text())
    return Declared(
        parameters=tuple(_parameter(name, tables[name]) for name in lists["parameters"]),
        options=tuple(_parameter(name, tables[name]) for name in lists["options"]),
        own=frozenset(own),
    )


def limits_of(path: str) -> dict[str, Limits]:
    """The ``limits`` that a file of this package lists, by kind of server."""
    return dict(tomllib.loads((FOLDER / path).read_text())["limits"])


def limited(declared: tuple[Parameter, ...], limits: Limits) -> tuple[Parameter, ...]:
    """The parameters as a kind of server accepts them."""
    return tuple(replace(each, **limits.get(each.name, {})) for each in declared)


def _tables(path: str) -> dict[str, Any]:
    content = tomllib.loads((FOLDER / path).read_text())
    return {name: table for name, table in content.items() if isinstance(table, dict)}


def _parameter(name: str, table: Mapping[str, Any]) -> Parameter:
    return Parameter(name=name, **{**table, "choices": tuple(table.get("choices", ()))})


def read_parameters(
    declared: tuple[Parameter, ...], values: Values
) -> tuple[dict[str, object], list[str]]:
    """The declared values, typed and within their limits, and a sentence for each that was
    corrected."""
    known = {parameter.name: parameter for parameter in declared}
    result = {name: p.default for name, p in known.items() if p.default is not None}
    notes: list[str] = []
    for name, value in values.items():
        if value is None or value == "":
            continue
        parameter = known.get(name)
        if parameter is None:
            notes.append(f"The parameter {name} was left out: this API type has no such parameter.")
            continue
        accepted = _accept(parameter, value)
        if accepted is None:
            notes.append(f"The parameter {name} was left out: this server accepts no such value.")
            continue
        is_number = parameter.kind in ("number", "integer")
        if is_number and accepted != _as_float(value):
            notes.append(f"The parameter {name} was set to {accepted}, the nearest allowed value.")
        result[name] = accepted
    return result, notes


def not_sent(chosen: Values, reason: str) -> list[str]:
    """A sentence for each parameter that has a value but is not sent."""
    return [
        f"The parameter {name} was left out: {reason}."
        for name, value in chosen.items()
        if value not in (None, "")
    ]


def read_options(declared: tuple[Parameter, ...], values: Values) -> dict[str, object]:
    """The declared options with their defaults; other names are ignored."""
    names = {parameter.name for parameter in declared}
    return read_parameters(declared, {k: v for k, v in values.items() if k in names})[0]


def _accept(parameter: Parameter, value: object) -> object:
    if parameter.kind == "boolean":
        return _as_boolean(value)
    if parameter.kind == "choice":
        return value if value in parameter.choices else None
    if parameter.kind in ("text", "lines"):
        return value if isinstance(value, str) else None
    if parameter.kind == "json":
        return _as_json(value)
    number = _as_float(value)
    if number is None:
        return None
    if parameter.minimum is not None:
        number = max(number, parameter.minimum)
    if parameter.maximum is not None:
        number = min(number, parameter.maximum)
    return round(number) if parameter.kind == "integer" else number


def _as_float(value: object) -> float | None:
    if not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _as_json(value: object) -> object:
    """An object or a list, as it is or as text."""
    if isinstance(value, str):
        try:
            value = read_json(value)[0]
        except NotJson:
            return None
    return value if isinstance(value, dict | list) else None


def _as_boolean(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    words = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}
    return words.get(str(value).lower())
