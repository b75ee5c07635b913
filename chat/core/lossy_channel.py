"""The lossy channel between the processes of an installation: streams of recent messages in Redis.

Messages only make things faster. Lost, late, unreadable or foreign ones are replaced by the database,
and nothing waits for Redis. A process sends over one connection and reads over another one, whatever
the number of its streams.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import uuid
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Self

from redis.asyncio.connection import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import OutOfMemoryError, ResponseError

from chat.core import metrics
from chat.core.waiting import cancel_task

logger = logging.getLogger(__name__)

CONNECT_SECONDS = 2.0
# Limits of a stream: some seconds of the busiest installation.
STREAM_BYTES = 16 * 1024 * 1024
STREAM_MESSAGES = (16, 4096)
STREAM_SECONDS = 60
# How often Redis is told to trim a stream; not with every message, of which there are forty a
# second.
EXPIRE_SECONDS = 10.0
# Redis answers within a millisecond, or it is frozen.
ANSWER_SECONDS = 2.0
# How long one read waits for messages before it checks that the streams are still the same ones.
BLOCK_SECONDS = 1.0
PAUSE_SECONDS = 0.5

# The state before it listens.
BEGINS = "begins"

BODY, MAC = b"b", b"m"
MAC_BYTES = ORIGIN_BYTES = 16

# The messages that wait to be sent. It is closed when sending fails; what is left is lost.
Outbox = Callable[[], Generator[bytes, None, None]]
Receive = Callable[[Sequence[bytes]], Awaitable[None]]


class RedisConnection:
    """Sends one command after another. It connects with the first command, and again after a
    failure. ``answer_seconds`` limits how long a response may take, round trip included."""

    def __init__(self, url: str, *, answer_seconds: float) -> None:
        self._answer_seconds = answer_seconds
        pool = ConnectionPool.from_url(
            url,
            # Replies that callers parse themselves.
            protocol=2,
            # The timeout is set here, around everything, because the connection's own timeout
            # creates a task each time.
            socket_timeout=None,
            socket_connect_timeout=CONNECT_SECONDS,
            # The caller decides whether and when to try again.
            retry=Retry(NoBackoff(), 0),
        )
        self._connection = pool.make_connection()  # type: ignore[no-untyped-call]

    async def command(self, *command: str | bytes | int) -> Any:
        """The reply as Redis gives it: bytes, numbers, lists of them, or nothing.

        Raises ``TimeoutError``, ``redis.exceptions.RedisError``, or whatever redis-py raises for
        what it reads. After anything but a ``ResponseError``, call `close_connection` before the
        next command.
        """
        connection = self._connection
        async with asyncio.timeout(self._answer_seconds):
            await connection.send_packed_command(
                connection.pack_command(*command), check_health=False
            )
            return await connection.read_response()

    async def close_connection(self) -> None:
        """A connection whose last reply may still arrive is not used again."""
        with suppress(Exception):
            # A socket with a full buffer closes cleanly only when the other side reads again.
            async with asyncio.timeout(self._answer_seconds):
                await self._connection.disconnect()


@dataclass(slots=True)
class _Stream:
    name: str
    key: str
    outbox: Outbox
    receive: Receive | None
    mean_bytes: float = 1024.0
    # The loop's time at which its expiry is set again in Redis.
    expire_at: float = 0.0
    # The number of the last message that was read, and the loop's time of the last read or check.
    position: bytes | None = None
    checked_at: float = 0.0

    def most_messages(self) -> int:
        least, most = STREAM_MESSAGES
        return min(most, max(least, int(STREAM_BYTES / self.mean_bytes)))


class LossyChannel:
    """The connection of one process to the others, while the ``async with`` block runs.

    Streams are added before. ``secret`` is shared by the processes of an installation: messages
    without it are ignored. Installations that share a Redis have keys with different prefixes.
    """

    def __init__(self, url: str, *, secret: str, prefix: str = "") -> None:
        self._mac_key = hashlib.blake2b(secret.encode(), person=b"tributary-tail").digest()
        fingerprint = hashlib.blake2b(self._mac_key, digest_size=4).hexdigest()
        self._prefix = prefix or f"tributary:{fingerprint}"
        self._url = url
        self._origin = uuid.uuid4().bytes
        self._streams: list[_Stream] = []
        self._has_messages = asyncio.Event()
        self._has_listened = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        # Empty, or why it does not deliver. It is logged when it changes.
        self._trouble = {"send": "", "read": ""}

    def add_stream(self, name: str, outbox: Outbox, receive: Receive | None = None) -> None:
        """Streams are sent and read in the order in which they are added. ``receive`` gets the messages of
        other processes, several at once; without it the stream is not read here."""
        key = f"{self._prefix}:{name}"
        self._streams.append(_Stream(name=name, key=key, outbox=outbox, receive=receive))
        if receive is not None:
            self._trouble["read"] = BEGINS

    def send_soon(self) -> None:
        """An outbox has messages. Called on the event loop; never waits."""
        self._has_messages.set()

    async def send_now(self) -> None:
        """Sends what waits over a connection of its own, for a process that is not connected. Raises what
        `RedisConnection.command` raises."""
        connection = RedisConnection(self._url, answer_seconds=ANSWER_SECONDS)
        try:
            await self._send(connection)
        finally:
            await connection.close_connection()

    @property
    def is_delivering(self) -> bool:
        """True if the last attempts to send and to read succeeded."""
        return not any(self._trouble.values())

    async def until_listening(self) -> None:
        """Returns when messages are read for the first time, or after ``ANSWER_SECONDS``: a process must
        start without Redis, too."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._has_listened.wait()

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._send_forever(), name="channel-send")]
        if any(stream.receive for stream in self._streams):
            self._tasks.append(asyncio.create_task(self._read_forever(), name="channel-read"))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Sends what waits, if Redis answers."""
        for task in self._tasks:
            await cancel_task(task)
        if self._has_messages.is_set():
            with suppress(Exception):
                await self.send_now()

    def _note(self, direction: str, trouble: str) -> None:
        if self._trouble[direction] == trouble:
            return
        self._trouble[direction] = trouble
        if trouble:
            logger.warning("channel.lost direction=%s error=%s", direction, trouble)
        else:
            logger.info("channel.restored direction=%s", direction)

    def _mac(self, stream: _Stream, body: bytes) -> bytes:
        person = stream.name.encode()
        digest = hashlib.blake2b(body, key=self._mac_key, digest_size=MAC_BYTES, person=person)
        return digest.digest()

    # --- out ---------------------------------------------------------------------------------

    async def _send_forever(self) -> None:
        connection = RedisConnection(self._url, answer_seconds=ANSWER_SECONDS)
        try:
            while True:
                await self._has_messages.wait()
                try:
                    await self._send(connection)
                except Exception as error:
                    # Any error of the client: the next attempt uses a new connection.
                    self._note("send", type(error).__name__)
                    # The next one may be another Redis, or one that was emptied.
                    for stream in self._streams:
                        stream.expire_at = 0.0
                    await connection.close_connection()
                    await asyncio.sleep(PAUSE_SECONDS)
                else:
                    self._note("send", "")
        finally:
            await connection.close_connection()

    async def _send(self, connection: RedisConnection) -> None:
        """If it is cancelled or fails, some messages may have arrived; those that were taken are not sent
        again."""
        self._has_messages.clear()
        for stream in self._streams:
            with closing(stream.outbox()) as messages:
                for message in messages:
                    await self._add(connection, stream, self._origin + message)

    async def _add(self, connection: RedisConnection, stream: _Stream, body: bytes) -> None:
        stream.mean_bytes += (len(body) - stream.mean_bytes) / 16
        limit = ("MAXLEN", "~", stream.most_messages())
        fields = (BODY, body, MAC, self._mac(stream, body))
        try:
            await connection.command("XADD", stream.key, *limit, "*", *fields)
            now = asyncio.get_running_loop().time()
            if now >= stream.expire_at:
                # Redis expires the stream when nothing has been sent for long.
                await connection.command("EXPIRE", stream.key, STREAM_SECONDS)
                stream.expire_at = now + EXPIRE_SECONDS
        except OutOfMemoryError:
            raise
        except ResponseError as error:
            await _begin_anew(connection, stream, error)
            raise

    # --- in ----------------------------------------------------------------------------------

    async def _read_forever(self) -> None:
        connection = RedisConnection(self._url, answer_seconds=BLOCK_SECONDS + ANSWER_SECONDS)
        streams = [stream for stream in self._streams if stream.receive is not None]
        try:
            while True:
                try:
                    # At the end of each stream, whatever it holds: messages from before this process
                    # listened may be about a database from before a restored backup.
                    for stream in streams:
                        await _check_position(connection, stream)
                    while True:
                        self._note("read", "")
                        self._has_listened.set()
                        await self._read(connection, streams)
                except Exception as error:
                    metrics.NOTIFICATION_FAILURES.inc()
                    self._note("read", type(error).__name__)
                    await connection.close_connection()
                    await asyncio.sleep(PAUSE_SECONDS)
        finally:
            await connection.close_connection()

    async def _read(self, connection: RedisConnection, streams: Sequence[_Stream]) -> None:
        block = ("BLOCK", int(BLOCK_SECONDS * 1000))
        keys = [stream.key for stream in streams]
        positions = [stream.position or b"0-0" for stream in streams]
        answer = await connection.command(
            "XREAD", "COUNT", 64, *block, "STREAMS", *keys, *positions
        )
        found = dict(answer or ())
        now = asyncio.get_running_loop().time()
        for stream in streams:
            messages = found.get(stream.key.encode())
            if messages:
                await self._deliver(stream, messages)
                stream.checked_at = now
            elif now - stream.checked_at >= BLOCK_SECONDS:
                # Another stream may keep the reads from ever being empty.
                await _check_position(connection, stream)

    async def _deliver(self, stream: _Stream, messages: Sequence[Sequence[Any]]) -> None:
        bodies = []
        for number, fields in messages:
            stream.position = number
            body = self._believed(stream, fields)
            if body is None:
                logger.debug("channel.unreadable stream=%s", stream.name)
            elif not body.startswith(self._origin):
                bodies.append(body[ORIGIN_BYTES:])
        if bodies and stream.receive is not None:
            await stream.receive(bodies)

    def _believed(self, stream: _Stream, fields: object) -> bytes | None:
        """The message, if a process of this installation wrote it."""
        match fields:
            case [name, bytes() as body, other, bytes() as mac] if (name, other) == (BODY, MAC):
                return body if hmac.compare_digest(mac, self._mac(stream, body)) else None
        return None


async def _begin_anew(connection: RedisConnection, stream: _Stream, error: ResponseError) -> None:
    """Deletes a key of another type under our name, or a stream whose last number leaves no
    room."""
    if "WRONGTYPE" in str(error) or "XADD" in str(error) or "exhausted" in str(error):
        await connection.command("DEL", stream.key)


async def _check_position(connection: RedisConnection, stream: _Stream) -> None:
    """Goes to the end of the stream if the position is behind it: then it is another stream."""
    try:
        newest = await connection.command("XREVRANGE", stream.key, "+", "-", "COUNT", 1)
    except ResponseError as error:
        await _begin_anew(connection, stream, error)
        raise
    end: bytes = newest[0][0] if newest else b"0-0"
    if stream.position is None or _parts(stream.position) > _parts(end):
        stream.position = end
    stream.checked_at = asyncio.get_running_loop().time()


def _parts(number: bytes) -> tuple[int, int]:
    """The two halves of a message's number, which define the order."""
    time, _, count = number.partition(b"-")
    return int(time), int(count or 0)
