"""Every kind of attachment over a socket to a strict server of each API, and what comes of it in later requests."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from chat.dialects import DIALECTS
from chat.documents import reading
from chat.documents.readers.reader import read_document
from chat.forks.actions import fork
from chat.models import Message, Run, Team, Upstream, User
from chat.runs.runner import Runner
from chat.tools.runner import RUN_CALLS
from tests.runs.attachment_wire import (
    EVERYTHING,
    KINDS,
    LEFT_TO_MODEL,
    Writer,
    answer_of,
    call_of,
    compare,
    last_answer,
    recorded,
)
from tests.runs.helpers import text_of, threads, until, until_ended
from tests.runs.waiting import calling, wire_call
from tests.support.run_fixtures import PATHS, StartRunner
from tests.support.selection import sample
from tests.support.upstream.strict import StrictUpstream
from tests.support.upstream.strict_requests import DIALECTS as STRICT
from tests.support.upstream.strict_requests import refusal_of

AS_TEXT, AS_FILE = "text", "file"


@pytest.fixture(autouse=True)
def reads_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents are read when a test says so, and without a process for each, which other tests show."""

    def read(_: str, file: Any, order: bytes, **__: object) -> Iterator[bytes]:
        yield from read_document(file, order)

    monkeypatch.setattr(reading, "read_in_child", read)
    monkeypatch.setattr("chat.runs.runner._periodic_tasks", {RUN_CALLS.topic: RUN_CALLS})


@pytest.fixture
async def strict() -> AsyncIterator[StrictUpstream]:
    async with StrictUpstream() as fake:
        yield fake


class Line:
    """A person, a runner and a strict server of one API."""

    def __init__(self, strict: StrictUpstream, writer: Writer, dialect: str) -> None:
        self.strict, self.writer, self.dialect = strict, writer, dialect

    async def use(self, documents: str) -> None:
        self.strict.dialect = self.dialect
        address = f"{self.strict.url}{PATHS.get(self.dialect, '')}"
        fields = {"base_url": address, "dialect": self.dialect, "options": {"documents": documents}}
        rows = Upstream.objects.filter(pk=self.writer.upstream.pk)
        await threads.call(lambda: rows.update(**fields))

    async def send(self, make: Callable[..., Run], *values: Any) -> tuple[Run, Any]:
        """The run as it ended, and its request."""
        self.strict.script(answer_of(self.dialect))
        run = await until_ended(await threads.call(make, *values))
        assert self.strict.refusals == []
        assert run.status == "completed", run.error_message
        whole = Run.objects.select_related("message__parent", "message__conversation")
        return await threads.call(whole.get, pk=run.pk), self.strict.requests[-1].body


StartLine = Callable[[str], Any]


@pytest.fixture
def start_line(
    strict: StrictUpstream, start_runner: StartRunner, upstream: Upstream, alice: User, team: Team
) -> StartLine:
    async def start(dialect: str) -> Line:
        runner: Runner = await start_runner()
        assert runner is not None
        return Line(strict, Writer(user=alice, team=team, upstream=upstream), dialect)

    return start


def test_every_api_has_a_strict_server() -> None:
    assert set(STRICT) == set(DIALECTS)


@pytest.mark.parametrize("dialect", STRICT)
async def test_requests_with_attachments_are_as_recorded(
    start_line: StartLine, dialect: str
) -> None:
    line = await start_line(dialect)
    requests: dict[str, Any] = {}
    kinds = dict(sample(list(KINDS.items()), 2))
    for documents in (AS_TEXT, AS_FILE):
        await line.use(documents)
        for kind, files in kinds.items():
            _, body = await line.send(line.writer.start, files)
            if documents == AS_TEXT:
                requests[kind] = recorded(body)
            elif recorded(body) != requests[kind]:
                requests[f"{kind}, as a file"] = recorded(body)

    first, sent = await line.send(line.writer.start, EVERYTHING)
    _, after = await line.send(line.writer.follow, first.message, "And why?")
    _, edited = await line.send(line.writer.edit, first.message.parent, "Where is it?")
    requests |= {
        "everything": recorded(sent),
        "everything, next message": recorded(after),
        "everything, edited": recorded(edited),
    }
    await check_same_again(line, first, sent, after)
    await check_fork(line, first, requests)

    compare(dialect, requests, kinds)


async def check_same_again(line: Line, first: Run, sent: Any, after: Any) -> None:
    """A retry sends what was sent, and a branch beside a later message what that one sent."""
    _, again = await line.send(line.writer.retry, first.message)
    _, branch = await line.send(line.writer.follow, first.message, "And why?")

    assert again == sent
    assert branch == after


async def check_fork(line: Line, first: Run, requests: dict[str, Any]) -> None:
    """The copy has the files, and sends them, too."""

    def copy() -> Message:
        room, answer = first.message.conversation, first.message
        return last_answer(fork(line.writer.user, room, at=answer, idempotency_key=uuid.uuid4()))

    _, body = await line.send(line.writer.follow, await threads.call(copy), "And why?")
    if recorded(body) != requests["everything, next message"]:
        requests["everything, next message in a fork"] = recorded(body)


# The first three are one protocol.
@pytest.mark.parametrize(
    "dialect",
    [
        "openai_chat",
        pytest.param("xerotier", marks=pytest.mark.slow),
        pytest.param("bitseek", marks=pytest.mark.slow),
        "anthropic_messages",
        "openai_responses",
    ],
)
async def test_model_reads_a_file_over_the_wire(start_line: StartLine, dialect: str) -> None:
    line = await start_line(dialect)
    await line.use(AS_TEXT)
    arguments = {"file": LEFT_TO_MODEL.name}
    if dialect in ("anthropic_messages", "openai_responses"):
        line.strict.script(call_of(dialect, "read_file", arguments))
    else:
        call = wire_call(0, "c1", "read_file", '{"file": "long.pdf"}')
        line.strict.script(calling(call))
    line.strict.script(answer_of(dialect))

    run = await threads.call(line.writer.start, [LEFT_TO_MODEL])
    answer = Run.objects.filter(message=run.message_id, position=1)
    await until(answer.exists)
    ended = await until_ended(await threads.call(answer.get))

    assert line.strict.refusals == []
    assert text_of(ended)
    assert "Look here." not in str(line.strict.requests[0].body)
    assert "Look here." in str(line.strict.requests[1].body)


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        ("openai_chat", b'{"model":"m","messages":[{"role":"user","content":[{"type":"file"}]}]}'),
        ("openai_chat", b'{"model":"m","messages":[{"role":"user","content":""}]}'),
        ("lmstudio", b'{"model":"m","input":[{"type":"message","content":"x"}]}'),
        (
            "anthropic_messages",
            b'{"model":"m","max_tokens":1,"messages":[{"role":"assistant","content":[]}]}',
        ),
        ("bitseek", b'{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]}'),
        ("openai_responses", b'{"model":"m","input":[{"type":"input_file"}]}'),
        ("openai_completions", b'{"model":"m","prompt":["x"]}'),
        ("xerotier", b"no JSON"),
    ],
)
def test_strict_servers_refuse_what_is_not_documented(dialect: str, body: bytes) -> None:
    assert refusal_of(dialect, body)
