"""``manage.py decode``: prints a recorded answer of an upstream as canonical events."""

import argparse
import itertools
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO

import msgspec
from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext

from chat import dialects
from chat.dialects.base import Dialect, Parser
from chat.dialects.errors import error_of
from chat.events import ErrorInfo, Event, encode, to_ascii
from chat.events.translation import gettext_noop
from chat.result import Fold, finish
from chat.wire.sse import MAX_EVENT_BYTES, Decoder, EventTooLarge, Frame

READ_BYTES = 64 * 1024
_BLANKS = b"\xef\xbb\xbf \t\r\n"
TOO_LARGE = gettext_noop("An event of the stream exceeds the size limit.")


class Command(BaseCommand):
    help = "Decode recorded answers into events; the last event of each file is chat.end."
    # The command uses no database, and needs no checks of the settings.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "files", nargs="+", metavar="FILE", help="a recording, or - for standard input"
        )
        parser.add_argument("--dialect", required=True, metavar="NAME", help="the API type")
        parser.add_argument("--model", default="", help="the requested model")
        parser.add_argument("--endpoint", default="", help="name of the server")
        parser.add_argument(
            "--split", type=int, default=READ_BYTES, metavar="N", help="bytes per read"
        )
        output = parser.add_mutually_exclusive_group()
        output.add_argument(
            "--result", action="store_true", help="print only the result, one line per file"
        )
        output.add_argument("--frames", action="store_true", help="print the decoded SSE frames")

    def handle(self, *args: object, **options: object) -> None:
        try:
            dialect = dialects.get(str(options["dialect"]))
        except KeyError as error:
            raise CommandError(error.args[0]) from None
        split = options["split"]
        if not isinstance(split, int) or split < 1:
            raise CommandError(gettext("--split must be at least 1."))
        files = options["files"]
        for name in files if isinstance(files, list) else []:
            for line in _lines(name, dialect, split, options):
                # ASCII, because every terminal can print it, and U+2028 does not look like the end
                # of a line.
                self.stdout.write(to_ascii(line).decode())


def _lines(name: str, dialect: Dialect, split: int, options: dict[str, object]) -> Iterator[bytes]:
    chunks = read_file(name, split)
    if options["frames"]:
        yield from _frame_lines(chunks)
        return
    parser = dialect.parser(
        model=str(options["model"]), endpoint=str(options["endpoint"]), options={}
    )
    if not options["result"]:
        for event in decode(parser, chunks, Fold()):
            yield encode(event)
        return
    fold = Fold()
    for _ in decode(parser, chunks, fold):
        pass
    yield msgspec.json.encode({"file": name, "result": fold.result()})


def read_file(name: str, split: int) -> Iterator[bytes]:
    """A file in portions. Raises ``CommandError`` if it cannot be read."""
    try:
        with _open(name) as stream:
            while chunk := stream.read(split):
                yield chunk
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror}") from None


def _open(name: str) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb")


def decode(parser: Parser, chunks: Iterator[bytes], fold: Fold) -> Iterator[Event]:
    """All events of one recording, numbered and folded; the last is ``chat.end``. A recording that
    begins like a JSON object is parsed as a complete answer."""
    is_body, chunks = _sniff(chunks)
    batches = _body(parser, chunks) if is_body else _stream(parser, chunks)
    error: ErrorInfo | None = None
    try:
        for events in batches:
            for event in events:
                event.seq = fold.last_seq + 1
                fold.add(event)
                yield event
    except EventTooLarge:
        error = error_of("protocol", TOO_LARGE)
    seq = fold.last_seq
    for event in finish(parser, fold, "failed" if error else "eof", error=error):
        seq += 1
        event.seq = seq
        yield event


def _sniff(chunks: Iterator[bytes]) -> tuple[bool, Iterator[bytes]]:
    """Returns whether the first byte that is not whitespace opens an object, and all the chunks."""
    read: list[bytes] = []
    start = b""
    for chunk in chunks:
        read.append(chunk)
        start = chunk.lstrip(_BLANKS)
        if start:
            break
    return start.startswith(b"{"), itertools.chain(read, chunks)


def _body(parser: Parser, chunks: Iterator[bytes]) -> Iterator[list[Event]]:
    yield parser.feed_body(b"".join(chunks))


def _stream(parser: Parser, chunks: Iterator[bytes]) -> Iterator[list[Event]]:
    decoder = Decoder(MAX_EVENT_BYTES, may_repeat=True)
    try:
        for frame in _frames_of(decoder, chunks):
            yield parser.feed(frame)
    except EventTooLarge as error:
        for frame in error.frames:
            yield parser.feed(frame)
        raise


def _frames_of(decoder: Decoder, chunks: Iterator[bytes]) -> Iterator[Frame]:
    for chunk in chunks:
        yield from decoder.feed(chunk)
    yield from decoder.close()


def _frame_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    try:
        for frame in _frames_of(Decoder(MAX_EVENT_BYTES, may_repeat=True), chunks):
            yield _frame_line(frame)
    except EventTooLarge as error:
        yield from (_frame_line(frame) for frame in error.frames)
        yield msgspec.json.encode({"error": TOO_LARGE, "bytes": error.size_bytes})


def _frame_line(frame: Frame) -> bytes:
    members = msgspec.structs.asdict(frame)
    return msgspec.json.encode({**members, "raw": frame.raw.decode("utf-8", "replace")})
