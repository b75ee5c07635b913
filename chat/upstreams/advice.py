"""What an answer showed about its server, in words, and the settings that it recommends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from chat.dialects.base import Dialect
from chat.dialects.event_counts import COMMENT
from chat.dialects.parameters import Parameter
from chat.upstreams.stream_probe import ProbeObservation

# The report names a few unknown kinds; the server's page lists all of them, with samples.
MAX_UNKNOWN_NAMED = 6

# Prefixes of event names, and the dialect that knows them.
_SPOKEN_IN = (
    ("x_", "xerotier"),
    ("response.", "openai_responses"),
    ("message_start", "anthropic_messages"),
    ("content_block_", "anthropic_messages"),
    ("chat.start", "lmstudio"),
    ("chunk: ", "openai_chat"),
)

Fact = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A recommended setting for this server: an option of the dialect, or another dialect."""

    target: Literal["option", "dialect"]
    name: str
    value: object
    label: str
    reason: str


# --- facts -----------------------------------------------------------------------------------


def facts_of(heard: ProbeObservation) -> tuple[Fact, ...]:
    """Label and value, in the order in which a person would ask."""
    return (
        ("Content type", heard.content_type or "none"),
        ("Streaming", _streaming(heard)),
        ("First event", _seconds(heard.first_event_seconds)),
        ("End", _terminator(heard)),
        ("Token counts", _usage(heard)),
        ("Reasoning", _reasoning(heard)),
        ("Heartbeats", _heartbeats(heard) or "none in this short answer"),
        ("Unknown events", _unknown(heard)),
    )


def tool_fact(heard: ProbeObservation) -> str:
    """How the arguments of tool calls were sent."""
    if not heard.calls:
        return "none: the model did not call the tool"
    return "in pieces" if max(heard.calls.values()) > 1 else "whole, in one piece"


def _streaming(heard: ProbeObservation) -> str:
    if not heard.is_event_stream:
        return "no: one JSON answer"
    pieces = "1 piece of text" if heard.deltas == 1 else f"{heard.deltas} pieces of text"
    if heard.is_lump is None:
        return f"an event stream with {pieces}: too short to tell more"
    if heard.is_lump:
        return f"{pieces}, but all in one lump: something on the way may hold them back"
    return f"{pieces}, as they are made"


def _seconds(seconds: float | None) -> str:
    return "none" if seconds is None else f"after {seconds:.2f} s"


def _terminator(heard: ProbeObservation) -> str:
    if heard.is_cut_short:
        return "not waited for: the answer went on for long enough to know the rest"
    if heard.has_done_marker:
        return "[DONE]"
    if heard.terminal_name.startswith("chunk: "):
        return "a finish reason; no [DONE] is waited for"
    if heard.terminal_name and heard.is_event_stream:
        return f"the event {heard.terminal_name}"
    if not heard.is_event_stream:
        return "the end of the JSON answer"
    if heard.ending is not None and heard.ending.status in ("cut", "failed"):
        return "none: the connection just closes"
    return "a finish reason, then the connection closes; no [DONE]"


def _usage(heard: ProbeObservation) -> str:
    if not heard.usage_names:
        return "none"
    total = sum(heard.usage_names.values())
    (name, _), *others = heard.usage_names.most_common()
    if total == 1:
        return f"once, in {name}"
    named = ", ".join([name, *(other for other, _ in others[:2])])
    return f"in {total} events ({named}); the last one counts"


def _reasoning(heard: ProbeObservation) -> str:
    if is_inline(heard):
        return "inside the text, in <think> tags"
    if has_only_closing_tag(heard):
        return "inside the text, with only the closing </think> tag"
    if not heard.reasoning_name:
        return "none in this answer"
    if heard.reasoning_name.startswith("chunk: "):
        return f"in the member {heard.reasoning_name.removeprefix('chunk: ')}"
    return f"in the event {heard.reasoning_name}"


def is_inline(heard: ProbeObservation) -> bool:
    return heard.text.lstrip().startswith("<think>")


def has_only_closing_tag(heard: ProbeObservation) -> bool:
    return "</think>" in heard.text and "<think>" not in heard.text


def _heartbeats(heard: ProbeObservation) -> str:
    words = {COMMENT: "comments"}
    return ", ".join(f"{words.get(name, name)} × {n}" for name, n in heard.heartbeats.items())


def _unknown(heard: ProbeObservation) -> str:
    kinds = heard.unknown
    if not kinds:
        return "none"
    named = ", ".join(f"{kind.name} × {kind.count}" for kind in kinds[:MAX_UNKNOWN_NAMED])
    rest = len(kinds) - MAX_UNKNOWN_NAMED
    return f"{named} and {rest} more" if rest > 0 else named


# --- advice ----------------------------------------------------------------------------------


class Adviser:
    """Gives advice that the dialect has an option for, and that would change something."""

    def __init__(
        self, dialect: Dialect, options: Mapping[str, object], others: Mapping[str, Dialect]
    ) -> None:
        self._dialect = dialect
        self._declared = {option.name: option for option in dialect.options}
        self._options = options
        self._others = others

    def of_refusal(self, mended: Mapping[str, object], message: str) -> Iterator[Advice]:
        """``mended`` are the options with which a refused request was accepted."""
        for name, value in mended.items():
            yield from self._option(name, value, f"The server refused it otherwise: {message}")

    def of_answer(self, heard: ProbeObservation) -> Iterator[Advice]:
        yield from self._better_dialect(heard)
        if has_only_closing_tag(heard):
            reason = "The answer holds a closing </think> tag that nothing opened."
            yield from self._option("inline_think", "assume_open", reason)
        elif is_inline(heard) and self._value("inline_think") == "off":
            reason = "The answer begins with thinking in <think> tags."
            yield from self._option("inline_think", "auto", reason)
        if heard.has_output and not heard.usage_names and not heard.is_cut_short:
            reason = "No token counts came; most servers send them when they are asked for them."
            yield from self._option("stream_options", True, reason)

    def of_call(self, heard: ProbeObservation) -> Iterator[Advice]:
        if not heard.calls or not heard.reasoning_name or is_inline(heard):
            return
        if self._value("replay_reasoning") == "never":
            reason = (
                "The model reasons before it calls a tool. Some servers, such as DeepSeek's, "
                "refuse the tool's result when that reasoning does not come back with it."
            )
            yield from self._option("replay_reasoning", "tool_turns", reason)

    def _better_dialect(self, heard: ProbeObservation) -> Iterator[Advice]:
        name = self._name_of_better(heard)
        other = self._others.get(name)
        if other is not None and other.name != self._dialect.name:
            yield Advice(
                target="dialect",
                name="dialect",
                value=other.name,
                label=f"Dialect: {other.label}",
                reason="The server sends what only that dialect knows.",
            )

    def _name_of_better(self, heard: ProbeObservation) -> str:
        if str(heard.first_object.get("id", "")).startswith("stream:chat:"):
            return "bitseek"
        for kind in heard.unknown:
            for beginning, name in _SPOKEN_IN:
                if kind.name.startswith(beginning):
                    return name
        return ""

    def _option(self, name: str, value: object, reason: str) -> Iterator[Advice]:
        option = self._declared.get(name)
        if option is None or option.is_secret or self._value(name) == value:
            return
        if option.kind == "choice" and value not in option.choices:
            return
        label = f"{option.label}: {_in_words(value)}"
        yield Advice(target="option", name=name, value=value, label=label, reason=reason)

    def _value(self, name: str) -> object:
        option: Parameter | None = self._declared.get(name)
        return None if option is None else self._options.get(name, option.default)


def _in_words(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value).replace("_", " ")
