"""Compares the streamed answer with the final object that the server sent.

Some servers end with the whole answer as one object. Nothing of it is copied into ours, so the two
can be compared: letters of text and thinking, and the calls of tools.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext, gettext_noop, ngettext

from chat.events import (
    Json,
    JsonObject,
    MessageItem,
    OutputItem,
    ReasoningItem,
    Result,
    ToolCallItem,
)
from chat.events.thinking_marks import PAIRS
from chat.rendering.figures import count


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The comparable parts of an answer. ``thinking`` and ``calls`` are ``None`` if a server's
    final object has them in another form than the stream."""

    text: str
    thinking: str | None
    calls: tuple[tuple[str, str], ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalDifference:
    about: str
    streamed: str
    final: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalComparison:
    compared: tuple[str, ...]
    differences: tuple[FinalDifference, ...]

    @property
    def agrees(self) -> bool:
        return not self.differences


def receipt_of(result: Result) -> FinalComparison | None:
    """The comparison with the server's final object; ``None`` if it sent none, or one without an
    output."""
    final = lmstudio_said(result.ext.upstream_result)
    if final is None:
        return None
    receipt = compare(streamed(result.output), final)
    noted = _objects(result.ext.meta.get("differences"))
    shown = {each.about for each in receipt.differences}
    further = [
        FinalDifference(
            about=_about(entry), streamed=_value(entry, "streamed"), final=_value(entry, "final")
        )
        for entry in noted
        if not shown or entry.get("about") not in _COMPARED_HERE
    ]
    return FinalComparison(compared=receipt.compared, differences=(*receipt.differences, *further))


# Notes of a dialect about the text and arguments of items are shown with excerpts by ``compare``.
_COMPARED_HERE = ("characters", "arguments")
_MOST_VALUE_CHARACTERS = 200
_ABOUT: dict[str, str] = {
    "characters": gettext_noop("characters"),
    "arguments": gettext_noop("arguments of a tool"),
    "kind": gettext_noop("kind of an item"),
    "presence": gettext_noop("presence of an item"),
    "tool": gettext_noop("name of a tool"),
    "output": gettext_noop("result of a tool"),
    "provider": gettext_noop("provider of a tool"),
    "reason": gettext_noop("failure of a tool"),
    "model": gettext_noop("model"),
}


def _about(entry: JsonObject) -> str:
    about = str(entry.get("about"))
    return gettext(_ABOUT[about]) if about in _ABOUT else about


def _value(entry: JsonObject, side: str) -> str:
    value = entry.get(side)
    text = value if isinstance(value, str) else _canonical_or_none(value)
    return text[:_MOST_VALUE_CHARACTERS] or gettext("none")


def _canonical_or_none(value: Json) -> str:
    return "" if value is None else _canonical(value)


def compare(ours: Said, final: Said) -> FinalComparison:
    differences: list[FinalDifference] = []
    texts = [(gettext("text"), ours.text, final.text)]
    if final.thinking is not None:
        texts.append((gettext("thinking"), ours.thinking or "", final.thinking))
    for about, one, other in texts:
        if one != other:
            differences.append(
                FinalDifference(about=about, streamed=_place(one, other), final=_place(other, one))
            )
    compared = [about for about, _, _ in texts]
    if final.calls is not None:
        about = gettext("tool calls")
        compared.append(about)
        if ours.calls != final.calls:
            differences.append(
                FinalDifference(about=about, streamed=_calls(ours), final=_calls(final))
            )
    return FinalComparison(compared=tuple(compared), differences=tuple(differences))


# Characters of the excerpt before and after the first difference.
_BEFORE, _FROM = 20, 40


def _place(one: str, other: str) -> str:
    """The length, and an excerpt from the first difference on."""
    parting = _parting(one, other)
    excerpt = one[max(0, parting - _BEFORE) : parting + _FROM]
    words = ngettext(
        "%(count)s character; differs from character %(place)s on: “%(excerpt)s”",
        "%(count)s characters; differs from character %(place)s on: “%(excerpt)s”",
        len(one),
    )
    return words % {"count": count(len(one)), "place": count(parting + 1), "excerpt": excerpt}


def _parting(one: str, other: str) -> int:
    """The length of the common beginning, by bisection: a frame waits for this, and letter by
    letter a long answer takes a second."""
    shared, most = 0, min(len(one), len(other))
    while shared < most:
        middle = (shared + most + 1) // 2
        if one.startswith(other[shared:middle], shared):
            shared = middle
        else:
            most = middle - 1
    return shared


def _calls(said: Said) -> str:
    calls = ", ".join(f"{tool} {arguments}" for tool, arguments in said.calls or ())
    return calls[:200] or gettext("none")


def streamed(output: Sequence[OutputItem]) -> Said:
    text = "".join(item.content for item in output if isinstance(item, MessageItem))
    return Said(
        # Marks of thinking that the server's settings leave in the text are in both.
        text=_without_thinking(text),
        thinking="".join(item.content for item in output if isinstance(item, ReasoningItem)),
        calls=tuple(
            (item.tool, _canonical(item.arguments))
            for item in output
            if isinstance(item, ToolCallItem)
        ),
    )


def lmstudio_said(final: Json) -> Said | None:
    """The ``result`` of LM Studio's ``chat.end``."""
    entries = _entries(final)
    if not entries:
        return None
    calls = [entry for entry in entries if entry.get("type") == "tool_call"]
    raw = _joined(entries, "message")
    text = _without_thinking(raw)
    return Said(
        text=text,
        thinking=_joined(entries, "reasoning") if text == raw else None,
        calls=tuple((str(call.get("tool")), _canonical(call.get("arguments"))) for call in calls),
    )


def responses_said(final: Json) -> Said | None:
    """The ``response`` of the event with which the Responses API ends: its text. Its thinking is a
    summary in parts and its calls are of a dozen kinds, which our events say in another way."""
    entries = _entries(final)
    if not entries:
        return None
    parts = [
        part
        for entry in entries
        if entry.get("type") == "message"
        for part in _objects(entry.get("content"))
        if part.get("type") == "output_text"
    ]
    text = "".join(str(part.get("text", "")) for part in parts)
    return Said(text=_without_thinking(text), thinking=None, calls=None)


def _without_thinking(text: str) -> str:
    """Models behind simple servers think in their text; a stream is read as thinking there."""
    for opening, closing, _ in PAIRS:
        if opening in text:
            text = _without(text, opening, closing)
    return text


def _without(text: str, opening: str, closing: str) -> str:
    kept: list[str] = []
    at = 0
    # A mark that is never closed is text.
    while (begin := text.find(opening, at)) >= 0 and (end := text.find(closing, begin)) >= 0:
        kept.append(text[at:begin])
        at = end + len(closing)
        while text[at : at + 1].isspace():
            at += 1
    return "".join([*kept, text[at:]])


def _entries(final: Json) -> list[JsonObject]:
    return _objects(final.get("output")) if isinstance(final, dict) else []


def _objects(values: Json) -> list[JsonObject]:
    return (
        [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
    )


def _joined(entries: Iterable[JsonObject], kind: str) -> str:
    return "".join(str(e.get("content") or "") for e in entries if e.get("type") == kind)


def _canonical(value: Json) -> str:
    try:
        return json.dumps({} if value is None else value, sort_keys=True, ensure_ascii=False)
    except RecursionError:
        return "(nested too deeply)"
