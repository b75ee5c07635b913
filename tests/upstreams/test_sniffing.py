"""What kind of body an answer has, by its first bytes and its content type."""

from itertools import product

import pytest

from chat.upstreams.answer_facts import MAX_SNIFFED_BYTES, shape_of

SSE, JSON, HTML, TEXT = (
    "text/event-stream; charset=utf-8",
    "application/json",
    "text/html",
    "text/plain",
)
# shape: the first bytes of such a body
BEGINNINGS = {
    "stream": [
        b"data: x",
        b"data:{",
        b"event: chat.start\n",
        b": heartbeat\n",
        b"\r\n\ndata: ",
        b"id: 1",
        b"\xef\xbb\xbfdata: x",
    ],
    "data": [b'{"a": 1}', b" \n[", b"\xef\xbb\xbf{"],
    "page": [b"<!DOCTYPE html>"],
}


@pytest.mark.parametrize("shape", BEGINNINGS)
def test_clear_beginning_outweighs_the_label(shape, subtests):
    for label, begun in product([SSE, JSON, HTML, TEXT, ""], BEGINNINGS[shape]):
        with subtests.test(msg=f"{label}: {begun!r}"):
            assert shape_of(label, begun, is_complete=False) == shape


def test_too_few_bytes_are_undecided_until_the_end(subtests):
    for begun in [b"", b"\n", b"d", b"da", b"data", b"eve", b"\xef\xbb\xbf"]:
        with subtests.test(msg=repr(begun)):
            assert shape_of(TEXT, begun, is_complete=False) is None
            assert shape_of(TEXT, begun, is_complete=True) == "data"


@pytest.mark.parametrize(
    ("label", "shape"), [(SSE, "stream"), (HTML, "page"), (TEXT, "data"), ("", "data")]
)
def test_unclear_bytes_leave_it_to_the_label(label, shape):
    assert shape_of(label, b"Internal error", is_complete=False) == shape
    assert shape_of(label, b" " * MAX_SNIFFED_BYTES, is_complete=False) == shape
