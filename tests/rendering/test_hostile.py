"""No text of an upstream becomes markup, in any field of any event."""

import re

import pytest

from chat import events
from chat.rendering.markdown import render
from chat.rendering.parts import UnsafePatch, partial
from chat.rendering.patches import Answer
from tests.rendering.dom import Page, parse
from tests.rendering.hostile_texts import HOSTILE, assert_harmless, everywhere
from tests.rendering.stories import RUN, answer_of, end, numbered


def test_no_field_of_any_event_becomes_markup(subtests: pytest.Subtests) -> None:
    for text in HOSTILE:
        with subtests.test(msg=text):
            answer = Answer(RUN)
            page = Page(RUN, answer.snapshot(), answer.phase())

            for event in numbered(everywhere(text)):
                seen = answer.seq
                answer.apply(event)
                page.apply(answer.patches_since(seen))

            assert page.state() == Page(RUN, answer.snapshot(), answer.phase()).state()
            assert page.answer.find_all("audio")
            assert_harmless(page.answer)
            assert_harmless(page.strip)


def test_markdown_keeps_no_foreign_attribute(subtests: pytest.Subtests) -> None:
    for text in HOSTILE:
        with subtests.test(msg=text):
            root = parse(render(text, f"r{RUN}-i0"))

            assert_harmless(root)
            assert not [e for e in root.elements() if "style" in e.attributes]
            # The ids of notes contain no word of the text.
            note_id = rf"r{RUN}-i0-(?:note|ref)\d+(?:-\d+)?"
            assert all(re.fullmatch(note_id, id) for id in root.ids())


def test_unfolded_parts_become_no_markup(subtests: pytest.Subtests) -> None:
    for text in HOSTILE:
        with subtests.test(msg=text):
            cited = events.Citation(kind=text, title=text, url=f"https://x.org/{text}", end=3)
            answer = answer_of(
                events.MessageStart(item=3),
                events.MessageDelta(item=3, content=text),
                events.CitationAdd(item=3, citation=cited),
                events.LogprobsAdd(item=3, tokens=[{"token": text, "logprob": -1.0}]),
                events.MessageEnd(item=3),
                events.ToolCallSuccess(
                    item=4, tool="t", arguments={}, output=f'{{"a": ["{text}"]}}'
                ),
                events.ToolCallSuccess(item=5, tool="t", arguments={}, output=text * 400),
                end(),
            )

            answer.unfold()

            assert_harmless(Page(RUN, answer.snapshot(), "").answer)


def test_partial_refuses_what_htmx_would_rewrite(subtests: pytest.Subtests) -> None:
    for content in (
        "</hx-partial>",
        "<HX-on>",
        "a<template>",
        "</TEMPLATE>",
        "<head>",
        "<HEAD x>",
        "<header>",
    ):
        with subtests.test(msg=content), pytest.raises(UnsafePatch):
            partial("x", "innerHTML", content)


def test_partial_accepts_escaped_markup() -> None:
    assert "&lt;hx-partial&gt;" in partial("x", "beforeend", "&lt;hx-partial&gt;")


def test_only_raster_images_become_pictures() -> None:
    answer = answer_of(
        events.MediaUpdate(item=0, media_id="a", media_type="image/svg+xml", data="PHN2Zz4="),
        events.MediaUpdate(item=1, media_id="b", media_type="image/png", data='"><script>'),
    )

    assert "<img" not in answer.snapshot()


def test_answer_contains_no_forms() -> None:
    answer = answer_of(*everywhere("text"))

    tags = {element.tag for element in parse(answer.snapshot()).elements()}

    assert not tags & {"form", "textarea", "select"}
