import pytest

from chat.upstreams.sniffing import MAX_SNIFFED_BYTES, shape_of

SSE, JSON, HTML, TEXT = (
    "text/event-stream; charset=utf-8",
    "application/json",
    "text/html",
    "text/plain",
)


@pytest.mark.parametrize("label", [SSE, JSON, HTML, TEXT, ""])
@pytest.mark.parametrize(
    "begun",
    [
        b"data: x",
        b"data:{",
        b"event: chat.start\n",
        b": heartbeat\n",
        b"\r\n\ndata: ",
        b"id: 1",
        b"\xef\xbb\xbfdata: x",
    ],
)
def test_bytes_of_a_stream_are_a_stream_under_any_label(label, begun):
    assert shape_of(label, begun, is_complete=False) == "stream"


@pytest.mark.parametrize("label", [SSE, JSON, HTML, TEXT, ""])
@pytest.mark.parametrize("begun", [b'{"a": 1}', b" \n[", b"\xef\xbb\xbf{"])
def test_json_is_data_under_any_label(label, begun):
    assert shape_of(label, begun, is_complete=False) == "data"


@pytest.mark.parametrize("label", [SSE, JSON, HTML, TEXT, ""])
def test_markup_is_a_page_under_any_label(label):
    assert shape_of(label, b"<!DOCTYPE html>", is_complete=False) == "page"


@pytest.mark.parametrize("begun", [b"", b"\n", b"d", b"da", b"data", b"eve", b"\xef\xbb\xbf"])
def test_too_little_is_undecided_until_the_end(begun):
    assert shape_of(TEXT, begun, is_complete=False) is None
    assert shape_of(TEXT, begun, is_complete=True) == "data"


@pytest.mark.parametrize(
    ("label", "shape"), [(SSE, "stream"), (HTML, "page"), (TEXT, "data"), ("", "data")]
)
def test_bytes_that_say_nothing_leave_it_to_the_label(label, shape):
    assert shape_of(label, b"Internal error", is_complete=False) == shape
    assert shape_of(label, b" " * MAX_SNIFFED_BYTES, is_complete=False) == shape
