"""Repeated deltas are read without parsing where that is certain to give the same."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.dialects.delta_fast_path import RepeatedForm, form_of
from chat.wire.sse import Frame


def read(frame: Frame) -> tuple[str, str] | None:
    """A dialect with one kind of payload."""
    try:
        data = json.loads(frame.data, strict=False)
    except ValueError:
        return None
    if not isinstance(data, dict) or set(data) != {"kind", "text"}:
        return None
    return (data["kind"], data["text"]) if isinstance(data["text"], str) else None


def learned(data: str, event: str | None = None) -> RepeatedForm[str] | None:
    frame = Frame(event, data)
    found = read(frame)
    assert found is not None
    return form_of(frame, *found, read)


def test_next_text_is_read_without_parsing() -> None:
    form = learned('{"kind": "a", "text": "one"}')

    assert form is not None
    assert form.key == "a"
    assert form.text_of(Frame(None, '{"kind": "a", "text": "two é\u2028"}')) == "two é\u2028"
    assert form.text_of(Frame(None, '{"kind": "a", "text": ""}')) == ""
    assert form.text_of(Frame(None, '{"kind": "a", "text": "t\\u0077o \\"\\n"}')) == 'two "\n'


OTHER_FORMS = [
    '{"kind": "b", "text": "two"}',
    '{"kind": "a", "text": "two"} ',
    '{"kind": "a", "text": "half a pair: \\ud83c"}',
    '{"kind": "a", "text": "no such escape: \\q"}',
    '{"kind": "a", "text": "two", "text": "three"}',
    '{"kind": "a", "text": "',
    '{"kind": "a", "text": null}',
]


def test_other_forms_are_not_read(subtests: pytest.Subtests) -> None:
    for data in OTHER_FORMS:
        with subtests.test(data=data):
            form = learned('{"kind": "a", "text": "one"}')

            assert form is not None
            assert form.text_of(Frame(None, data)) is None


def test_other_events_are_not_read() -> None:
    form = learned('{"kind": "a", "text": "one"}', event="delta")

    assert form is not None
    assert form.text_of(Frame("other", '{"kind": "a", "text": "two"}')) is None
    assert form.text_of(Frame(None, '{"kind": "a", "text": "two"}')) is None


AMBIGUOUS = [
    '{"kind": "same", "text": "same"}',
    '{"kind": "a", "text": ""}',
    '{"kind": "a", "text": "with \\"quotes\\""}',
    # The text stands where the name of a member is, and its own place is spelled otherwise.
    '{"kind": "\\u006bind", "text": "\\u006bind"}',
]


def test_ambiguous_place_is_not_learned(subtests: pytest.Subtests) -> None:
    for data in AMBIGUOUS:
        with subtests.test(data=data):
            assert learned(data) is None


@given(
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=2, max_size=5),
    is_ascii=st.booleans(),
    kind=st.sampled_from(["a", "kind", "text"]),
)
def test_fast_read_agrees_with_parsing(texts: list[str], is_ascii: bool, kind: str) -> None:
    form: RepeatedForm[str] | None = None
    for text in texts:
        frame = Frame(None, json.dumps({"kind": kind, "text": text}, ensure_ascii=is_ascii))
        short = form.text_of(frame) if form else None

        assert short in (None, text)
        found = read(frame)
        assert found is not None
        form = form_of(frame, *found, read)
