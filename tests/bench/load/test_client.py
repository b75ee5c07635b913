"""What the viewers make of bytes, however they are cut."""

from tests.bench.load.client import ByteStream, Job
from tests.bench.load.marks import CLOSING, OPENING, Chunks
from tests.bench.load.page import Page

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
JOB = Job(
    port=1,
    ids=[1],
    count=3,
    gap_us=0,
    kind="plain",
    gate=0,
    ramp_per_second=0,
    window=(0, 1),
    until=1,
)


def events() -> bytes:
    """The body of a stream without the framing of HTTP."""
    chunks = Chunks("plain", 3)
    framed = [OPENING, *(chunks.at(number, 7) for number in range(3)), CLOSING]
    return b"".join(part.split(b"\r\n")[1] for part in framed) + b"data: [DONE]\n\n"


async def test_marks_are_found_wherever_a_copier_cut_the_stream() -> None:
    body = events()

    for size in (1, 7, 50, len(body)):
        stream = ByteStream(1, JOB)
        pieces = [body[start : start + size] for start in range(0, len(body), size)]
        chunked = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
        stream.data_received(HEAD + chunked[:40])
        stream.data_received(chunked[40:])

        assert stream.is_complete
        assert stream.marks.sent == [7, 7, 7]
        assert stream.conservation().holds


async def test_stream_that_ends_without_a_delta_has_lost_it() -> None:
    stream = ByteStream(1, JOB)
    first, *_, last = events().split(b"\n\n")[1:-1]
    body = b"\n\n".join([first, last, b""])

    stream.data_received(HEAD + b"%x\r\n%b\r\n" % (len(body), body))

    assert stream.is_complete
    assert stream.conservation().lost == 2


def test_page_takes_patches_as_they_come() -> None:
    page = Page("a", '<div id="ra"><div id="x">one</div></div><div id="pa"></div>')

    page.apply('<hx-partial hx-target="#x" hx-swap="beforeend"> two<b id="y">!</b></hx-partial>')
    page.apply('<hx-partial hx-target="#y" hx-swap="innerHTML">?</hx-partial>')
    assert page.text() == "one two?"

    page.apply('<hx-partial hx-target="#ra" hx-swap="innerHTML"><p id="x">new</p></hx-partial>')
    page.apply('<hx-partial hx-target="#x" hx-swap="beforeend">er</hx-partial>')
    assert page.text() == "newer"
