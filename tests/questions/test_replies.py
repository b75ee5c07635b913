"""Replies fit what was asked: options, fields and words."""

from __future__ import annotations

import pytest

from chat.core.errors import ActionRefused
from chat.models import Run, User
from chat.questions import actions as questions
from chat.result.asks import in_words
from chat.runs.resume import read_inputs
from tests.questions.replying import case, waiting_for
from tests.runs.waiting import question_of

CHOICE = {"fields": [{"name": "bank", "options": ["left", "right"]}]}
COLOURS = {"options": ["Red", {"label": "Deep blue", "value": "blue"}]}
FORM = {"fields": [{"name": "city", "label": "City", "required": True}, {"name": "day"}]}


def test_options_and_fields_are_read_in_any_form(run: Run) -> None:
    question = waiting_for(
        run, options=["Red", 7, {"id": "b", "text": "Blue"}, None, "Red"], **FORM
    )

    offered = [(option.value, option.label) for option in questions.options_of(question)]

    assert offered == [("Red", "Red"), ("7", "7"), ("b", "Blue")]
    assert [(f.name, f.label, f.is_required) for f in questions.fields_of(question)] == [
        ("city", "City", True),
        ("day", "day", False),
    ]


FITTING: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "words where nothing is offered": ({}, {"text": "Whichever"}),
    "one option": (COLOURS, {"selected": ["blue"]}),
    "several": ({**COLOURS, "multi_select": True}, {"selected": ["Red", "blue"]}),
    "own words": ({**COLOURS, "allow_free_text": True}, {"text": "Green"}),
    "a form": (FORM, {"fields": {"city": "Oslo"}}),
}
UNFITTING: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "nothing": ({}, {"text": "  "}),
    "no option": (COLOURS, {}),
    "another option": (COLOURS, {"selected": ["Green"]}),
    "the label of an option": (COLOURS, {"selected": ["Deep blue"]}),
    "two of one": (COLOURS, {"selected": ["Red", "blue"]}),
    "words where there are options": (COLOURS, {"text": "Green"}),
    "a field is missing": (FORM, {"fields": {"day": "Monday"}}),
    "another field": (FORM, {"fields": {"city": "Oslo", "hour": "9"}}),
    "another option of a field": (CHOICE, {"fields": {"bank": "middle"}}),
}
SHAPELESS = (
    {"options": "Red", "fields": 3},
    {"options": [[], {}, {"value": ["x"]}, True], "fields": [None, {}, [1]]},
)


def test_fitting_reply_is_accepted(run: Run, alice: User, subtests: pytest.Subtests) -> None:
    for label, (offer, reply) in FITTING.items():
        with case(subtests, label):
            question = waiting_for(run, **offer)

            follow_up = questions.answer(alice, question, **reply)

            (given,) = read_inputs(follow_up)
            assert given.text == reply.get("text", "")
            assert list(given.selected) == reply.get("selected", [])
            assert given.fields == reply.get("fields", {})


def test_unfitting_reply_is_refused(run: Run, alice: User, subtests: pytest.Subtests) -> None:
    for label, (offer, reply) in UNFITTING.items():
        with case(subtests, label):
            question = waiting_for(run, **offer)

            with pytest.raises(ActionRefused):
                questions.answer(alice, question, **reply)

            assert question_of(run).status == "open"


def test_malformed_question_can_be_answered_in_words(
    run: Run, alice: User, subtests: pytest.Subtests
) -> None:
    for body in SHAPELESS:
        with case(subtests, body):
            question = waiting_for(run, **body)

            assert questions.answer(alice, question, text="Whichever") is not None


def test_reply_in_words_has_the_labels() -> None:
    body = {
        "options": [{"id": "r", "label": "Rhine"}, {"id": "d", "label": "Danube"}],
        "fields": [
            {"name": "unit", "label": "Unit", "options": [{"id": "m", "label": "Meters"}]},
            {"name": "note", "label": "Note"},
        ],
    }

    said = in_words(body, text="Both", selected=["d", "other"], fields={"unit": "m", "note": " "})

    assert said == "Danube, other, Unit: Meters, Both"
