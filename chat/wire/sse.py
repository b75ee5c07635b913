"""Server-sent events on bytes: a decoder with limits, and the encoder for our own output."""

import re

from msgspec import Struct

# Larger than any event of a real server (a picture in base64), and small enough that two hundred
# hostile streams at once do not fill a machine.
MAX_EVENT_BYTES = 8 * 1024 * 1024

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANK_LINES = frozenset((b"\n", b"\r", b"\r\n"))
_LINE_ENDS = (b"\n", b"\r")
_BLOCK_END = b"\n\n"
_LINE_END = re.compile(r"\r\n|\n|\r")
_FORBIDDEN_IN_FIELD = re.compile(r"[\r\n\x00]")


class Frame(Struct, frozen=True, gc=False):
    """One dispatched event, or (``is_comment``) a block without data, kept for accounting.

    ``event`` is the ``event:`` field or ``None``; ``data`` are the joined data lines; ``raw`` are
    the bytes that were read for this block, its separator included. ``is_trailing`` says that the
    input ended before the block's blank line.
    """

    event: str | None
    data: str
    id: str | None = None
    raw: bytes = b""
    is_comment: bool = False
    is_trailing: bool = False


class EventTooLarge(Exception):
    """A block exceeded the limit; the decoder returns nothing more. ``frames`` are the events
    completed before it in the same read, so that none is lost."""

    def __init__(self, *, limit_bytes: int, size_bytes: int, frames: list[Frame]) -> None:
        super().__init__(f"one event is larger than {limit_bytes} bytes")
        self.limit_bytes = limit_bytes
        self.size_bytes = size_bytes
        self.frames = frames


class Decoder:
    """Decodes bytes in any portions into frames, in linear time.

    Lines end with CRLF, LF or a single CR and nothing else. A single CR ends its line at once,
    because the LF that may follow can take long to arrive; that LF is then part of the next frame's
    ``raw``. The concatenated ``raw`` of all frames is the input.

    The rest follows the standard, except that ``id`` is not carried over to later events, ``retry``
    is ignored, and an unfinished last block is dispatched:
    https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES, *, may_repeat: bool = False) -> None:
        """``may_repeat``: an event may be larger by twice what came before it, because the last
        event of some APIs contains the whole answer again, and the answer of the server behind
        it."""
        self._max_event_bytes = max_event_bytes
        self._may_repeat = may_repeat
        self._dispatched_bytes = 0
        self._block: list[bytes] = []
        self._block_bytes = 0
        self._tail: list[bytes] = []
        self._tail_bytes = 0
        self._is_at_start = True
        self._ended_with_return = False
        # Blank lines alone are not a block; they are kept for the block after them.
        self._has_content = False
        self._has_failed = False

    def feed(self, chunk: bytes) -> list[Frame]:
        """The events that ``chunk`` completes. Raises ``EventTooLarge``."""
        if not chunk or self._has_failed:
            return []
        frames: list[Frame] = []
        if b"\r" not in chunk and len(chunk) <= self._max_event_bytes:
            chunk = self._take_usual_blocks(chunk, frames)
        if chunk:
            self._take_lines(chunk, frames)
        return frames

    def _take_usual_blocks(self, chunk: bytes, frames: list[Frame]) -> bytes:
        """Reads the blocks of the two forms that nearly every event has, up to the first of another
        form. Returns the rest. It gives the same as `_take_lines`, in half the time."""
        if not self._is_between_blocks:
            # First the end of the current block.
            end = chunk.find(_BLOCK_END) + 2
            if end < 2:
                return chunk
            self._take_lines(chunk[:end], frames)
            chunk = chunk[end:]
            if not self._is_between_blocks:
                return chunk
        blocks = chunk.split(_BLOCK_END)
        taken = 0
        for block in blocks[:-1]:
            frame = _read_usual_block(block)
            if frame is None:
                break
            frames.append(frame)
            taken += len(block) + 2
        self._dispatched_bytes += taken
        return chunk[taken:]

    @property
    def _is_between_blocks(self) -> bool:
        return not (self._block or self._tail or self._is_at_start or self._ended_with_return)

    def _take_lines(self, chunk: bytes, frames: list[Frame]) -> None:
        for line in self._lines(chunk):
            self._block.append(line)
            self._block_bytes += len(line)
            if line not in _BLANK_LINES:
                self._has_content = True
            elif self._has_content:
                self._guard(frames)
                frames.append(self._dispatch(is_trailing=False))
        self._guard(frames)

    def close(self) -> list[Frame]:
        """The last event: an unfinished block is dispatched, not dropped."""
        if self._has_failed:
            return []
        if self._tail:
            lines = [self._take_tail()]
            if self._is_at_start:
                self._strip_mark(lines)
            self._add(lines[0])
        if not self._block:
            return []
        return [self._dispatch(is_trailing=True)]

    def unread(self) -> bytes:
        """The bytes that are in no frame: an unfinished or too large block, blank lines at the end.
        With them every byte is accounted for. Nothing is left after this call."""
        rest = b"".join([*self._block, *self._tail])
        self._block, self._tail = [], []
        self._block_bytes = self._tail_bytes = 0
        self._has_failed = True
        return rest

    def _lines(self, chunk: bytes) -> list[bytes]:
        """Complete lines with their ends. The unfinished rest is kept in pieces, which are joined
        once."""
        # On bytes this splits at CRLF, LF and CR only, unlike the method of the same name on text.
        lines = chunk.splitlines(keepends=True)
        if self._tail:
            self._keep(lines[0])
            if not lines[0].endswith(_LINE_ENDS):
                return []
            lines[0] = self._take_tail()
        elif self._ended_with_return and lines[0] == b"\n":
            # The second half of a CRLF, whose line was handled already.
            self._add(lines.pop(0))
        if lines and not lines[-1].endswith(_LINE_ENDS):
            self._keep(lines.pop())
        self._ended_with_return = chunk.endswith(b"\r")
        if self._is_at_start and lines:
            self._strip_mark(lines)
        return lines

    def _strip_mark(self, lines: list[bytes]) -> None:
        self._is_at_start = False
        if lines[0].startswith(_BYTE_ORDER_MARK):
            self._add(_BYTE_ORDER_MARK)
            lines[0] = lines[0][len(_BYTE_ORDER_MARK) :]

    def _keep(self, piece: bytes) -> None:
        self._tail.append(piece)
        self._tail_bytes += len(piece)

    def _take_tail(self) -> bytes:
        line = b"".join(self._tail)
        self._tail.clear()
        self._tail_bytes = 0
        return line

    def _add(self, line: bytes) -> None:
        self._block.append(line)
        self._block_bytes += len(line)

    def _guard(self, frames: list[Frame]) -> None:
        size = self._block_bytes + self._tail_bytes
        limit = self._max_event_bytes + 2 * self._dispatched_bytes * self._may_repeat
        if size > limit:
            self._has_failed = True
            raise EventTooLarge(limit_bytes=limit, size_bytes=size, frames=frames)

    def _dispatch(self, *, is_trailing: bool) -> Frame:
        self._dispatched_bytes += self._block_bytes
        block, self._block, self._block_bytes = self._block, [], 0
        self._has_content = False
        return _read_block(block, b"".join(block), is_trailing=is_trailing)


def _read_usual_block(block: bytes) -> Frame | None:
    """A single data line, with or without a name before it; ``None`` for any other form. ``block``
    has no CR, and lacks the two line ends after it."""
    # A line end is never part of another UTF-8 character, so everything can be decoded at once.
    text = block.decode("utf-8", "replace")
    if text.startswith("data: "):
        return None if "\n" in text else Frame(None, text[6:], None, block + _BLOCK_END)
    name, _, data = text.partition("\ndata: ")
    if not data or "\n" in data or "\n" in name or not name.startswith("event: "):
        return None
    return Frame(name[7:] or None, data, None, block + _BLOCK_END)


def _read_block(block: list[bytes], raw: bytes, *, is_trailing: bool) -> Frame:
    event: str | None = None
    identity: str | None = None
    data: list[str] = []
    for line in block:
        if line in _BLANK_LINES:
            continue
        name, value = read_field(line)
        if name == b"data":
            data.append(value)
        elif name == b"event":
            event = value or None
        elif name == b"id" and "\x00" not in value:
            identity = value
    return Frame(event, "\n".join(data), identity, raw, not data, is_trailing)


def read_field(line: bytes) -> tuple[bytes, str]:
    """Name and value of one line; a comment has the empty name. The line may include its end."""
    name, _, value = line.rstrip(b"\r\n").partition(b":")
    if value.startswith(b" "):
        value = value[1:]
    return name, value.decode("utf-8", "replace")


def encode_frame(event: str | None, id: str | int | None, data: str | bytes) -> bytes:
    """One frame of our own output; several lines of data become several ``data`` fields. Raises
    ``ValueError`` if a line end or NUL in ``event`` or ``id`` would forge a field."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    lines = [f"data: {line}" for line in _LINE_END.split(text)]
    if id is not None:
        lines.insert(0, f"id: {_field(str(id))}")
    if event is not None:
        lines.insert(0, f"event: {_field(event)}")
    return ("\n".join(lines) + "\n\n").encode("utf-8", "replace")


def encode_comment(text: str = "") -> bytes:
    """A comment frame: it keeps the connection alive, and no client takes it for an event."""
    return f": {_field(text)}\n\n".encode("utf-8", "replace")


def _field(value: str) -> str:
    if _FORBIDDEN_IN_FIELD.search(value):
        raise ValueError("a field of a server-sent event cannot hold a line end or NUL")
    return value
