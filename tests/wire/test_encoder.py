"""The encoder of server-sent events, whose fields cannot contain line breaks."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.wire.sse import Decoder, encode_comment, encode_frame

LINE_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\x00"))


def test_frame_has_its_fields_and_a_blank_line() -> None:
    assert (
        encode_frame("message.delta", 7, '{"a":1}')
        == b'event: message.delta\nid: 7\ndata: {"a":1}\n\n'
    )


def test_missing_fields_are_left_out() -> None:
    assert encode_frame(None, None, b"x") == b"data: x\n\n"


def test_field_with_a_line_break_is_refused(subtests: pytest.Subtests) -> None:
    for field, value in product(("event", "id"), ("a\nb", "a\rb", "a\x00b", "\n")):
        with subtests.test(field=field, value=value):
            fields = {"event": "a", "id": "1", field: value}

            with pytest.raises(ValueError, match="field"):
                encode_frame(fields["event"], fields["id"], "x")


def test_comment_with_a_line_break_is_refused() -> None:
    with pytest.raises(ValueError, match="field"):
        encode_comment("a\ndata: b")


def test_comment_is_no_event() -> None:
    (frame,) = Decoder().feed(encode_comment("alive"))

    assert frame.is_comment


@given(
    event=LINE_TEXT.filter(bool),
    identity=LINE_TEXT,
    data=st.text(st.characters(exclude_categories=["Cs"])),
)
def test_encoded_frame_is_decoded_unchanged(event: str, identity: str, data: str) -> None:
    (frame,) = Decoder().feed(encode_frame(event, identity, data))

    assert frame.event == event
    assert frame.id == identity
    assert frame.data == data.replace("\r\n", "\n").replace("\r", "\n")


def test_lone_surrogate_does_not_raise() -> None:
    assert encode_frame(None, None, "\ud83c") == b"data: ?\n\n"
