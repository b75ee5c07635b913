"""Exports of our own that somebody has changed, and what the report says about them."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

Value = dict[str, Any]


def answers_in(value: Value) -> list[Value]:
    return [run for turn in value["turns"] for run in turn["runs"]]


def add_turns(value: Value, count: int) -> None:
    value["turns"] = [{"id": number} for number in range(count)]


def change_contents(value: Value) -> None:
    digest = next(iter(value["contents"]))
    value["contents"][digest] = base64.b64encode(b"something else").decode()


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


OTHERS = "0f0f0f0f-0f0f-4f0f-8f0f-0f0f0f0f0f0f"
Change = Callable[[Value], object]
# What is changed in a file, and what the report says.
REFUSED: dict[str, tuple[Change, str]] = {
    "another version": (lambda file: file.update(version=2), "version 2"),
    "true is no version": (lambda file: file.update(version=True), "version True"),
    "no version": (lambda file: file.pop("version"), "version None"),
    "no turns": (lambda file: file.pop("turns"), "missing required field"),
    "wrong bytes": (change_contents, "content isn’t the one"),
    "no Base64": (
        lambda file: file["contents"].update(dict.fromkeys(file["contents"], "§")),
        "content isn’t the one",
    ),
    "wrong size": (lambda file: file["files"][0].update(size_bytes=1), "content isn’t the one"),
    "a digest that is a path": (
        lambda file: file["files"][0].update(sha256="../../etc/passwd"),
        "matching regex",
    ),
    "a turn above itself": (
        lambda file: file["turns"][0].update(parent=file["turns"][0]["id"]),
        "doesn’t contain before it",
    ),
    "a circle": (
        lambda file: file["turns"][0].update(parent=file["turns"][1]["id"]),
        "doesn’t contain before it",
    ),
    "a turn of another conversation": (
        lambda file: file["turns"][0].update(parent=OTHERS),
        "doesn’t contain before it",
    ),
    "the same turn twice": (lambda file: file["turns"].append(file["turns"][0]), "occurs twice"),
    "100,000 turns": (lambda file: add_turns(file, 100_000), "More than 10,000 messages"),
    "answer without a run": (lambda file: file["turns"][1].update(runs=[]), "needs a run"),
    "message that became an answer": (
        lambda file: file["turns"][0].update(role="assistant"),
        "needs a run",
    ),
    "message with a run": (
        lambda file: file["turns"][0].update(runs=file["turns"][1]["runs"]),
        "needs a run",
    ),
    "a branch of another conversation": (
        lambda file: file["conversation"].update(visible_turn=OTHERS),
        "doesn’t contain before it",
    ),
    "a file of another conversation": (
        lambda file: file["turns"][0]["attachments"].append(OTHERS),
        "doesn’t contain before it",
    ),
    "a run of another conversation": (
        lambda file: file["artifacts"][0]["versions"][0].update(run=OTHERS),
        "doesn’t contain before it",
    ),
    "a mockup with a file of another conversation": (
        lambda file: file["mockups"][0]["versions"][0]["files"][0].update(file=OTHERS),
        "doesn’t contain before it",
    ),
    "the same version twice": (
        lambda file: file["artifacts"][0]["versions"].append(file["artifacts"][0]["versions"][0]),
        "occurs twice",
    ),
    "no events": (lambda file: answers_in(file)[0].update(events=[1, 2]), "doesn’t follow"),
    "events without members": (
        lambda file: answers_in(file)[0].update(events=[{"type": "message.delta", "seq": 1}]),
        "aren’t a log",
    ),
    "events in another order": (
        lambda file: answers_in(file)[0]["events"].reverse(),
        "seq isn’t the next number",
    ),
    "events after the end": (
        lambda file: answers_in(file)[0]["events"].append(
            {"type": "message.end", "item": 0, "seq": len(answers_in(file)[0]["events"]) + 1}
        ),
        "events after the end",
    ),
    "an end that is none": (
        lambda file: answers_in(file)[0]["events"][-1].update(result={"output": 3}),
        "aren’t a log",
    ),
    "inputs that are none": (
        lambda file: answers_in(file)[0].update(inputs=[{"kind": "x"}]),
        "doesn’t follow",
    ),
    "tools that are none": (
        lambda file: answers_in(file)[0].update(tools=[{"name": 1}]),
        "doesn’t follow",
    ),
    "an answer of another type": (
        lambda file: file["turns"][-1]["runs"][0]["questions"][0].update(answer={"selected": 5}),
        "doesn’t follow",
    ),
    "a number that no column takes": (
        lambda file: answers_in(file)[0].update(input_tokens=2**63),
        "doesn’t follow",
    ),
    "a number of 1,000 digits": (
        lambda file: answers_in(file)[0]["events"][0].update(t=10**999),
        "too large",
    ),
    "a negative number": (
        lambda file: file["artifacts"][0]["versions"][0].update(seq=-1),
        "doesn’t follow",
    ),
    "a time without a zone": (
        lambda file: file["conversation"].update(created_at="2026-01-01T00:00:00"),
        "doesn’t follow",
    ),
    "deep nesting": (
        lambda file: file["conversation"].update(parameters={"x": nested(200)}),
        "nested too deeply",
    ),
    "a long title": (lambda file: file["conversation"].update(title="x" * 300), "doesn’t follow"),
}
