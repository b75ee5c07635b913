"""The decoder of server-sent events: the cases of the standard, and limits."""

import itertools
import sys
from collections.abc import Iterable
from itertools import pairwise

import pytest
from httpx_sse._decoders import SSEDecoder
from hypothesis import given
from hypothesis import strategies as st

from chat.wire.sse import Decoder, EventTooLarge, Frame

CASES = {
    "one line": (b"data: a\n\n", ["a"]),
    "no space": (b"data:a\n\n", ["a"]),
    "only one space goes": (b"data:  a\n\n", [" a"]),
    "two lines": (b"data: a\ndata: b\n\n", ["a\nb"]),
    "two blank data lines": (b"data\ndata\n\n", ["\n"]),
    "field name alone": (b"data\n\n", [""]),
    "colon in value": (b"data: a: b\n\n", ["a: b"]),
    "comment": (b": hello\n\n", []),
    "comment inside": (b"data: a\n: c\ndata: b\n\n", ["a\nb"]),
    "unknown field": (b"foo: 1\ndata: a\n\n", ["a"]),
    "spaced name is another field": (b" data: x\n\n", []),
    "event without data": (b"event: ping\n\n", []),
    "crlf": (b"data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]),
    "lone cr": (b"data: a\r\rdata: b\r\r", ["a", "b"]),
    "mixed ends": (b"data: a\r\n\ndata: b\n\rdata: c\r\r\n", ["a", "b", "c"]),
    "many blank lines": (b"\n\n\ndata: a\n\n\n\ndata: b\n\n", ["a", "b"]),
    "byte order mark": (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
    "mark later is text": (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", ["a"]),
    "mark and blank line": (b"\xef\xbb\xbf\ndata: a\n\n", ["a"]),
    "mark alone": (b"\xef\xbb\xbf", []),
    "unfinished block": (b"data: a\n\ndata: b", ["a", "b"]),
    "unfinished blank line": (b"data: a\n", ["a"]),
    "line separators are text": (
        "data: a\u2028b\u0085c\u000bd\n\n".encode(),
        ["a\u2028b\u0085c\u000bd"],
    ),
    "invalid utf-8": (b"data: a\xffb\n\n", ["a\ufffdb"]),
    "nul": (b"data: a\x00b\n\n", ["a\x00b"]),
    "emoji": ("data: 🌊\n\n".encode(), ["🌊"]),
    "nothing": (b"", []),
}
RICH = (
    "\ufeff: hello\r\n\r\nevent: a\rdata: é🌊\r\r\n\nid: 1\nretry: 5\ndata\n\n"
    "event: b\r\ndata: x\u2028y\r\ndata: z\r\n\r\n: c\n\ndata: tail"
).encode()
STREAM_BYTES = st.lists(
    st.sampled_from(
        [
            *(b"data", b":", b" ", b"\n", b"\r", b"\r\n", b"event", b"id", b"x"),
            *(b"\xc3", b"\xef\xbb\xbf", b"\x00"),
        ]
    ),
    max_size=40,
).map(b"".join)


def decode(chunks: Iterable[bytes]) -> list[Frame]:
    decoder = Decoder()
    frames = [frame for chunk in chunks for frame in decoder.feed(chunk)]
    return frames + decoder.close()


def feed_all(decoder: Decoder, chunks: Iterable[bytes], frames: list[Frame]) -> None:
    for chunk in chunks:
        frames += decoder.feed(chunk)


def events_of(frames: list[Frame]) -> list[tuple[str | None, str, str | None]]:
    return [(f.event, f.data, f.id) for f in frames if not f.is_comment]


def pieces(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    edges = [0, *sorted(cuts), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def test_cases_of_the_standard(subtests: pytest.Subtests) -> None:
    for label, (data, expected) in CASES.items():
        with subtests.test(label):
            frames = decode([data])

            assert [frame.data for frame in frames if not frame.is_comment] == expected
            assert b"".join(frame.raw for frame in frames) == data


def test_any_two_way_split_gives_the_same_events() -> None:
    whole = events_of(decode([RICH]))

    for cut in range(len(RICH) + 1):
        frames = decode([RICH[:cut], RICH[cut:]])

        assert events_of(frames) == whole, cut
        assert b"".join(frame.raw for frame in frames) == RICH, cut


def test_single_bytes_give_the_same_events() -> None:
    frames = decode(RICH[i : i + 1] for i in range(len(RICH)))

    assert events_of(frames) == events_of(decode([RICH]))


@given(data=STREAM_BYTES, cuts=st.sets(st.integers(0, 120)))
def test_any_cuts_change_nothing(data: bytes, cuts: set[int]) -> None:
    frames = decode(pieces(data, [cut for cut in cuts if cut <= len(data)]))

    assert events_of(frames) == events_of(decode([data]))
    assert b"".join(frame.raw for frame in frames) == data


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", "message.delta", "error"]),
            st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1),
        )
    )
)
def test_agrees_with_httpx_sse(events: list[tuple[str, str]]) -> None:
    text = "".join(f"event: {name}\ndata: {data}\n\n" for name, data in events)
    reference = SSEDecoder()

    expected = [e for line in text.split("\n") if (e := reference.decode(line)) is not None]

    assert [
        (event or "message", data) for event, data, _ in events_of(decode([text.encode()]))
    ] == [(e.event, e.data) for e in expected]


def test_later_events_are_read_like_the_first() -> None:
    fields = [b"event: a", b"event:b", b"id: 7", b"data: x", b"data:y", b"data: ", b": c"]
    blocks = [
        b"\n".join(lines) + b"\n\n"
        for count in (1, 2, 3)
        for lines in itertools.product(fields, repeat=count)
    ]

    # Of the events after the first, those of the usual forms are read in a quicker way.
    later = decode([b"data: first\n\n", *blocks])[1:]

    assert later == [frame for block in blocks for frame in decode([block])]


def test_event_and_id_are_read() -> None:
    (frame,) = decode([b"event: a\nevent: b\nid: 7\ndata: x\n\n"])

    assert (frame.event, frame.id, frame.data) == ("b", "7", "x")


def test_id_with_nul_is_ignored() -> None:
    (frame,) = decode([b"id: a\x00b\ndata: x\n\n"])

    assert frame.id is None


def test_comment_is_a_frame_of_its_own() -> None:
    first, second = decode([b": ping\n\ndata: x\n\n"])

    assert first.is_comment
    assert first.raw == b": ping\n\n"
    assert not second.is_comment


def test_unfinished_block_is_marked() -> None:
    first, second = decode([b"data: a\n\ndata: b"])

    assert not first.is_trailing
    assert second.is_trailing


def test_event_ends_at_a_blank_line_of_lone_returns() -> None:
    decoder = Decoder()

    assert [frame.data for frame in decoder.feed(b"data: [DONE]\r\r")] == ["[DONE]"]
    assert decoder.feed(b"\n") == []


def test_closing_again_gives_nothing() -> None:
    decoder = Decoder()
    decoder.feed(b"data: a")

    assert len(decoder.close()) == 1
    assert decoder.close() == []


def test_oversized_event_is_refused(subtests: pytest.Subtests) -> None:
    for size in [1, 7, 1000]:
        with subtests.test(f"{size} bytes at a time"):
            decoder = Decoder(max_event_bytes=100)
            data = b"data: first\n\ndata: " + b"x" * 200 + b"\n\n"
            frames: list[Frame] = []

            with pytest.raises(EventTooLarge) as caught:
                feed_all(decoder, pieces(data, range(size, len(data), size)), frames)

            assert [f.data for f in frames + caught.value.frames] == ["first"]
            assert caught.value.limit_bytes == 100
            # Not only once its end has come: a line may be endless.
            assert 100 < caught.value.size_bytes <= 100 + size
            assert decoder.feed(b"data: later\n\n") == []
            assert decoder.close() == []


def test_small_lines_of_one_event_add_up() -> None:
    decoder = Decoder(max_event_bytes=1000)

    with pytest.raises(EventTooLarge):
        feed_all(decoder, [b"data: abc\n"] * 200, [])


def test_event_may_repeat_what_came_before(subtests: pytest.Subtests) -> None:
    before = b"data: word\n\n" * 100
    whole = b"data: " + b"word" * 300 + b"\n\n"
    for size in [7, 1_000_000]:
        with subtests.test(f"{size} bytes at a time"):
            decoder = Decoder(max_event_bytes=100, may_repeat=True)
            frames: list[Frame] = []

            feed_all(
                decoder, pieces(before + whole, range(size, len(before + whole), size)), frames
            )

            assert len(frames) == 101
            assert frames[-1].data == "word" * 300
            with pytest.raises(EventTooLarge):
                decoder.feed(b"data: " + b"x" * 10_000)


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_repetition_has_exactly_twice_the_room_of_what_came_before(line_end: str) -> None:
    block = f"data: word{line_end}{line_end}".encode()
    limit_bytes = 100 + 2 * 10 * len(block)

    def event(size_bytes: int) -> bytes:
        return b"data: ".ljust(size_bytes - 2 * len(line_end), b"x") + 2 * line_end.encode()

    def fed() -> Decoder:
        decoder = Decoder(max_event_bytes=100, may_repeat=True)
        decoder.feed(block)
        decoder.feed(block * 9)
        return decoder

    assert len(fed().feed(event(limit_bytes))) == 1
    with pytest.raises(EventTooLarge):
        fed().feed(event(limit_bytes + 1))


def test_event_at_the_limit_is_accepted() -> None:
    data = b"data: " + b"x" * 92 + b"\n\n"
    assert len(data) == 100

    assert len(Decoder(max_event_bytes=100).feed(data)) == 1


def calls_for(chunks: int) -> int:
    """Function calls, those into C included, that one long line in 1 KiB reads costs."""
    decoder = Decoder()
    count = 0

    def profile(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        decoder.feed(b"data: ")
        for _ in range(chunks):
            decoder.feed(b"x" * 1024)
        decoder.feed(b"\n\n")
    finally:
        sys.setprofile(None)
    return count


def test_long_line_costs_the_same_for_each_read() -> None:
    assert calls_for(4096) <= 4.1 * calls_for(1024)


def test_long_line_is_joined_once() -> None:
    decoder = Decoder()

    for _ in range(4096):
        decoder.feed(b"x" * 1024)

    # The pieces themselves are the proof: joining at each read would leave one.
    assert len(decoder._tail) == 4096
    assert len(decoder.close()[0].raw) == 4096 * 1024


def test_feeding_nothing_gives_nothing() -> None:
    assert Decoder().feed(b"") == []
