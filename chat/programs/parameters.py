"""LM Studio's parameters under the names of other dialects; what has no place there is told. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chat.dialects.base import Dialect, Parameter, read_parameters
from chat.events import Json

# LM Studio's name, to the names that dialects have for the same, the first that there is.
_NAMES: Mapping[str, tuple[str, ...]] = {
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "top_k": ("top_k",),
    "min_p": ("min_p",),
    "repeat_penalty": ("repeat_penalty", "repetition_penalty"),
    "max_output_tokens": ("max_output_tokens", "max_tokens"),
    "context_length": ("context_length",),
}
LEFT_OUT = "The parameter {name} was left out: this server's API has no such thing."
REASONS_ANYWAY = (
    "The parameter reasoning ({value}) was left out: with this server the model decides by itself."
)


@dataclass(slots=True)
class Mapped:
    """Values under the dialect's names, and a sentence for each that is not as it was asked."""

    values: dict[str, Json] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def map_parameters(dialect: Dialect, asked: Mapping[str, Json], own: Mapping[str, Json]) -> Mapped:
    """``asked`` are LM Studio's, ``own`` the dialect's, which win. Values out of bounds are mended."""
    declared = {parameter.name: parameter for parameter in dialect.parameters}
    mapped = Mapped()
    for name, value in asked.items():
        if name == "reasoning":
            _map_reasoning(declared, str(value), mapped)
        elif target := next((each for each in _NAMES[name] if each in declared), None):
            mapped.values[target] = value
        else:
            mapped.notes.append(LEFT_OUT.format(name=name))
    mapped.values |= {name: value for name, value in own.items() if name in declared}
    mapped.notes += [
        LEFT_OUT.format(name="".join(filter(str.isprintable, name))[:60])
        for name in list(own)[:20]
        if name not in declared
    ]
    chosen = tuple(declared[name] for name in mapped.values)
    mapped.values, mended = read_parameters(chosen, mapped.values)
    mapped.notes += mended
    return mapped


def _map_reasoning(declared: Mapping[str, Parameter], wish: str, mapped: Mapped) -> None:
    if "reasoning" in declared:
        mapped.values["reasoning"] = wish
        return
    efforts = next((declared[name] for name in _EFFORTS if name in declared), None)
    thinking = declared.get("thinking")
    has_word_for_off = efforts is not None and "none" in efforts.choices
    if wish in _THINKING and thinking is not None and not has_word_for_off:
        mapped.values["thinking"] = _THINKING[wish]
        return
    value = {"off": "none"}.get(wish, wish)
    if efforts is not None and value in efforts.choices:
        mapped.values[efforts.name] = value
    elif efforts is not None:
        mapped.notes.append(REASONS_ANYWAY.format(value=wish))
    else:
        mapped.notes.append(LEFT_OUT.format(name="reasoning"))


_EFFORTS = ("reasoning_effort", "effort")
_THINKING = {"off": "disabled", "on": "enabled"}
