"""MCP servers that are commands: a process for each connection, which speaks over its standard input and output.

The process gets nothing of this one's environment but where programs and files are, and ends with the connection.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import NoReturn

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from django.utils.translation import gettext_noop
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage

from chat.dialects import errors
from chat.events import ErrorKind
from chat.tools.command_lines import CommandLine, command_line
from chat.tools.mcp.transport import CALL, MOST_VALUES, Endpoint, Traffic, ValueCounter
from chat.upstreams.failures import UpstreamBroken, UpstreamError, UpstreamRefused, failure
from chat.upstreams.redaction import Redactor

UNKNOWN_COMMAND = gettext_noop(
    "This installation no longer has the command of this server. An administrator sets it in TOOL_COMMANDS."
)
NOT_STARTED = gettext_noop(
    "The command of this server couldn’t be started. Check it in TOOL_COMMANDS, on the machine of the runner."
)
ENDED = gettext_noop("The command of this server ended before it answered.")

INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "TMPDIR")
# A server exits when its input ends. It is told to, and killed, after a second each.
POLL_SECONDS = 0.01
EXIT_POLLS = 100
CHUNK_BYTES = 64 * 1024

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectReceiveStream[SessionMessage]


@asynccontextmanager
async def command_streams(
    endpoint: Endpoint, traffic: Traffic
) -> AsyncGenerator[TransportStreams, None]:
    """Starts the command that the endpoint names, and ends it with its process group."""
    line = command_line(endpoint.url)
    if line is None:
        _fail(traffic, UNKNOWN_COMMAND)
    try:
        process = await asyncio.create_subprocess_exec(
            *line.arguments,
            env={name: os.environ[name] for name in INHERITED if name in os.environ}
            | dict(line.environment),
            cwd=tempfile.gettempdir(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            # It may have keys, and belongs to no call.
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError):
        _fail(traffic, NOT_STARTED)
    to_session, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    conversation = _Conversation(process, line, endpoint, traffic)
    tasks = [
        asyncio.create_task(conversation.read(to_session)),
        asyncio.create_task(conversation.write(from_session, to_session)),
    ]
    try:
        yield incoming, outgoing
    finally:
        conversation.is_over = True
        with anyio.CancelScope(shield=True):
            incoming.close()
            outgoing.close()
            await _end(process, tasks)


def _problem(text: str, *, kind: ErrorKind = "network") -> UpstreamError:
    return UpstreamRefused(errors.error_of(kind, text), never_accepted=True)


def _fail(traffic: Traffic, text: str) -> NoReturn:
    traffic.failure = _problem(text)
    raise traffic.failure


class _Conversation:
    """The messages of one connection, one a line."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        line: CommandLine,
        endpoint: Endpoint,
        traffic: Traffic,
    ) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout
        self._endpoint, self._traffic = endpoint, traffic
        self._redactor = Redactor(list(line.environment.values()))
        # True when the session needs nothing more.
        self.is_over = False

    async def read(self, to_session: Incoming) -> None:
        """Ends with the process's output, or at a limit. The session sees a closed connection then."""
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async with to_session:
                try:
                    await self._read_lines(to_session)
                    problem = _problem(ENDED)
                except UpstreamError as error:
                    problem = error
                if not self.is_over:
                    self._traffic.failure = problem

    async def _read_lines(self, to_session: Incoming) -> None:
        values = ValueCounter()
        unread = bytearray()
        while data := await self._stdout.read(CHUNK_BYTES):
            self._count(len(data))
            if values.add(data) > MOST_VALUES:
                raise UpstreamBroken(failure("too_large"))
            searched = len(unread)
            unread += self._redactor.chunk(data)
            while (end := unread.find(b"\n", searched)) >= 0:
                line = bytes(unread[:end])
                del unread[: end + 1]
                searched = 0
                if line.strip():
                    if self._traffic.was_sent:
                        self._traffic.record_received(line + b"\n")
                    await to_session.send(self._message_of(line))

    def _count(self, size: int) -> None:
        self._traffic.total_bytes += size
        if self._traffic.was_sent:
            self._traffic.response_bytes += size
            # As for HTTP: the answer to the call has begun.
            self._traffic.status = 200
        if self._traffic.total_bytes > self._endpoint.most_bytes:
            raise UpstreamBroken(failure("too_large"))

    def _message_of(self, line: bytes) -> SessionMessage | Exception:
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError as error:
            return error
        self._traffic.has_message = True
        return SessionMessage(message)

    async def write(self, from_session: Outgoing, to_session: Incoming) -> None:
        """Ends when the session does, when the process reads no more, or when a call may not be made."""
        try:
            async with from_session:
                async for each in from_session:
                    await self._send(each)
        except Exception:
            # The session would wait for an answer for ever.
            await to_session.aclose()

    async def _send(self, each: SessionMessage) -> None:
        text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
        if getattr(each.message, "method", "") == CALL:
            await self._begin_call(text.encode())
        self._stdin.write(text.encode() + b"\n")
        await self._stdin.drain()

    async def _begin_call(self, message: bytes) -> None:
        traffic = self._traffic
        traffic.request_bytes, traffic.response_bytes = len(message), 0
        traffic.record_sent(message, self._redactor)
        if self._endpoint.before_call is not None:
            try:
                await self._endpoint.before_call()
            except Exception as error:
                traffic.refusal = error
                raise
        traffic.status, traffic.has_message = 0, False
        traffic.was_sent = True


async def _end(process: asyncio.subprocess.Process, tasks: list[asyncio.Task[None]]) -> None:
    """Ends the process in the order of the specification, and everything that it has started."""
    assert process.stdin is not None
    process.stdin.close()
    for number in (signal.SIGTERM, signal.SIGKILL):
        await _until_exited(process)
        # Also when it has exited: its group may have others.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    # `wait` waits for the end of the output, too, which a program that has left the group may hold open. There is no
    # public way to close it.
    process._transport.close()  # type: ignore[attr-defined]
    await process.wait()


async def _until_exited(process: asyncio.subprocess.Process) -> None:
    for _ in range(EXIT_POLLS):
        if process.returncode is not None:
            return
        await asyncio.sleep(POLL_SECONDS)
