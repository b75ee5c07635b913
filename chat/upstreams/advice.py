"""Observed facts about a server, in words, and the settings that they recommend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from django.utils.formats import number_format
from django.utils.translation import gettext, ngettext

from chat.dialects.base import Dialect
from chat.dialects.event_counts import COMMENT
from chat.dialects.parameters import Parameter
from chat.dialects.thinking import begins_with_thinking, has_lone_closing
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
        (gettext("Content type"), heard.content_type or gettext("none")),
        (gettext("Streaming"), _streaming(heard)),
        (gettext("First event"), _seconds(heard.first_event_seconds)),
        (gettext("End of the answer"), _terminator(heard)),
        (gettext("Token counts"), _usage(heard)),
        (gettext("Thinking"), _reasoning(heard)),
        (gettext("Heartbeats"), _heartbeats(heard) or gettext("none in this short answer")),
        (gettext("Unknown events"), _unknown(heard)),
    )


def tool_fact(heard: ProbeObservation) -> str:
    """How the arguments of tool calls were sent."""
    if not heard.calls:
        return gettext("none: the model didn’t call the tool")
    if max(heard.calls.values()) > 1:
        return gettext("sent in pieces")
    return gettext("sent in one piece")


def _streaming(heard: ProbeObservation) -> str:
    if not heard.is_event_stream:
        return gettext("no: one JSON answer")
    if heard.is_lump is None:
        text = ngettext(
            "%(count)d piece of text: too short to tell",
            "%(count)d pieces of text: too short to tell",
            heard.deltas,
        )
    elif heard.is_lump:
        text = ngettext(
            "%(count)d piece of text, all at once: a proxy may be buffering them",
            "%(count)d pieces of text, all at once: a proxy may be buffering them",
            heard.deltas,
        )
    else:
        text = ngettext(
            "%(count)d piece of text, sent as it was written",
            "%(count)d pieces of text, sent as they were written",
            heard.deltas,
        )
    return text % {"count": heard.deltas}


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return gettext("none")
    return gettext("after %(seconds)s s") % {"seconds": number_format(round(seconds, 2), 2)}


def _terminator(heard: ProbeObservation) -> str:
    if heard.is_cut_short:
        return gettext("not tested: the test stopped reading a long answer")
    if heard.has_done_marker:
        return "[DONE]"
    if heard.terminal_name.startswith("chunk: "):
        return gettext("a finish reason, without waiting for [DONE]")
    if heard.terminal_name and heard.is_event_stream:
        return gettext("the event %(name)s") % {"name": heard.terminal_name}
    if not heard.is_event_stream:
        return gettext("the end of the JSON answer")
    if heard.ending is not None and heard.ending.status in ("cut", "failed"):
        return gettext("none: the connection just closes")
    return gettext("a finish reason, then the connection closes without [DONE]")


def _usage(heard: ProbeObservation) -> str:
    if not heard.usage_names:
        return gettext("none")
    total = sum(heard.usage_names.values())
    (name, _), *others = heard.usage_names.most_common()
    if total == 1:
        return gettext("once, in %(name)s") % {"name": name}
    named = ", ".join([name, *(other for other, _ in others[:2])])
    text = ngettext(
        "in %(count)d event (%(names)s); the last one counts",
        "in %(count)d events (%(names)s); the last one counts",
        total,
    )
    return text % {"count": total, "names": named}


def _reasoning(heard: ProbeObservation) -> str:
    if is_inline(heard):
        return gettext("in the text, in <think> tags")
    if has_only_closing_tag(heard):
        return gettext("in the text, with only a closing </think> tag")
    if not heard.reasoning_name:
        return gettext("none in this answer")
    if heard.reasoning_name.startswith("chunk: "):
        name = heard.reasoning_name.removeprefix("chunk: ")
        return gettext("in the field %(name)s") % {"name": name}
    return gettext("in the event %(name)s") % {"name": heard.reasoning_name}


def is_inline(heard: ProbeObservation) -> bool:
    return begins_with_thinking(heard.text)


def has_only_closing_tag(heard: ProbeObservation) -> bool:
    return has_lone_closing(heard.text)


def _heartbeats(heard: ProbeObservation) -> str:
    words = {COMMENT: gettext("comments")}
    return ", ".join(f"{words.get(name, name)} × {n}" for name, n in heard.heartbeats.items())


def _unknown(heard: ProbeObservation) -> str:
    kinds = heard.unknown
    if not kinds:
        return gettext("none")
    named = ", ".join(f"{kind.name} × {kind.count}" for kind in kinds[:MAX_UNKNOWN_NAMED])
    rest = len(kinds) - MAX_UNKNOWN_NAMED
    if rest <= 0:
        return named
    text = ngettext("%(names)s and %(count)d more", "%(names)s and %(count)d more", rest)
    return text % {"names": named, "count": rest}


# --- advice ----------------------------------------------------------------------------------


class Adviser:
    """Recommends options of the dialect that would change something."""

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
            text = gettext("The server rejected any other value: %(message)s")
            yield from self._option(name, value, text % {"message": gettext(message)})

    def of_answer(self, heard: ProbeObservation) -> Iterator[Advice]:
        yield from self._better_dialect(heard)
        if has_only_closing_tag(heard):
            reason = gettext("The answer has a closing </think> tag without an opening one.")
            yield from self._option("inline_think", "assume_open", reason)
        elif is_inline(heard) and self._value("inline_think") == "off":
            reason = gettext("The answer starts with thinking in <think> tags.")
            yield from self._option("inline_think", "auto", reason)
        if heard.has_output and not heard.usage_names and not heard.is_cut_short:
            reason = gettext("The answer had no token counts. Most servers send them on request.")
            yield from self._option("stream_options", True, reason)

    def of_call(self, heard: ProbeObservation) -> Iterator[Advice]:
        if not heard.calls or not heard.reasoning_name or is_inline(heard):
            return
        if self._value("replay_reasoning") == "never":
            reason = gettext(
                "The model thinks before it calls a tool. Some servers, such as DeepSeek’s, "
                "reject the tool’s result if that thinking isn’t sent back with it."
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
                label=gettext("API type: %(name)s") % {"name": gettext(other.label)},
                reason=gettext("The server sends events that only this API type defines."),
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
        label = f"{gettext(option.label)}: {_in_words(option, value)}"
        yield Advice(target="option", name=name, value=value, label=label, reason=reason)

    def _value(self, name: str) -> object:
        option: Parameter | None = self._declared.get(name)
        return None if option is None else self._options.get(name, option.default)


def _in_words(option: Parameter, value: object) -> str:
    if isinstance(value, bool):
        return gettext("On") if value else gettext("Off")
    return gettext(option.choice_label(str(value)))
