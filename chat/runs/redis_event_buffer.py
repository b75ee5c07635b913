"""The event buffer that processes share: committed events in one Redis stream."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

import msgspec
from redis.asyncio.connection import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import OutOfMemoryError, ResponseError

from chat.core.waiting import LoopShare, end
from chat.runs.event_buffer import Consumer, LogEntry, MemoryEventBuffer, RunBuffer

CONNECT_SECONDS = 2.0


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


# --- the event buffer --------------------------------------------------------------------------
# Every flush of a process is one message with the new entries of all its runs: a message for each
# run would cost fifty times the CPU, on both sides
# (docs/decisions/0005-one-stream-for-all-runs.md). The buffer only makes delivery faster. What is
# lost, late, unreadable or foreign is read from the database; nothing waits for Redis, and no run
# depends on it.

logger = logging.getLogger(__name__)

# What is kept for a Redis that does not answer. It is out of date after a second, so little is
# kept.
OUTBOX_BYTES = 4 * 1024 * 1024
# The limit of one message; a flush after an outage of the database is larger.
MESSAGE_BYTES = 256 * 1024
# What the stream may hold: some seconds of the busiest installation.
STREAM_BYTES = 16 * 1024 * 1024
STREAM_MESSAGES = (16, 4096)
STREAM_SECONDS = 60
# How often Redis is told to trim the stream; not with every message, of which there are forty a
# second.
EXPIRE_SECONDS = 10.0
# Redis answers within a millisecond, or it is frozen.
ANSWER_SECONDS = 2.0
# How long one read waits for entries before it checks that the stream is still the same one.
BLOCK_SECONDS = 1.0
PAUSE_SECONDS = 0.5
# Entries of a run that nobody has read for this long are no longer collected.
LINGER_SECONDS = 10.0

# It does not listen yet.
BEGINS = "begins"

BODY, MAC = b"b", b"m"
MAC_BYTES = 16


class News(msgspec.Struct, array_like=True, frozen=True):
    """Committed events of one run: its id, the number of the first, and their JSON."""

    run: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
    first_seq: int
    bodies: list[bytes]


class BufferMessage(msgspec.Struct, array_like=True, frozen=True):
    """What one process committed in one flush."""

    origin: bytes
    news: list[News]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(BufferMessage).decode


@dataclass(slots=True)
class _Outbox:
    news: list[News]
    size_bytes: int = 0


class RedisEventBuffer(MemoryEventBuffer):
    """The event buffer of one event loop, between `start` and `close`.

    ``secret`` is shared by the processes of an installation: messages without it are ignored. A
    process that only executes runs neither ``keeps_own`` nor ``listens``.
    """

    def __init__(
        self, url: str, *, secret: str, keeps_own: bool, listens: bool, key: str = ""
    ) -> None:
        super().__init__()
        self._mac_key = hashlib.blake2b(secret.encode(), person=b"tributary-tail").digest()
        fingerprint = hashlib.blake2b(self._mac_key, digest_size=4).hexdigest()
        # Installations that share a Redis do not read each other's messages.
        self._key = key or f"tributary:{fingerprint}:tail"
        self._url = url
        self._keeps_own = keeps_own
        self._listens = listens
        self._origin = uuid.uuid4().bytes
        self._outbox = _Outbox([])
        self._has_news = asyncio.Event()
        # The followed runs, by their ids as they are in messages.
        self._followed: dict[bytes, RunBuffer] = {}
        self._own: set[UUID] = set()
        self._mean_bytes = 1024.0
        self._sender: RedisConnection | None = None
        self._reader: RedisConnection | None = None
        # By the loop's clock: when Redis is told again how long to keep the stream.
        self._expire_at = 0.0
        self._tasks: list[asyncio.Task[None]] = []
        # Empty, or why it does not deliver. It is logged when it changes.
        self._trouble = {"send": "", "read": BEGINS if listens else ""}

    async def start(self) -> None:
        self._sender = RedisConnection(self._url, answer_seconds=ANSWER_SECONDS)
        self._tasks = [asyncio.create_task(self._send_forever(), name="tail-send")]
        if self._listens:
            self._reader = RedisConnection(self._url, answer_seconds=BLOCK_SECONDS + ANSWER_SECONDS)
            self._tasks.append(asyncio.create_task(self._read_forever(), name="tail-read"))
            self._tasks.append(asyncio.create_task(self._sweep_forever(), name="tail-sweep"))

    async def close(self) -> None:
        """Sends what waits, if Redis answers, and closes the connections."""
        if self._sender is not None and self._outbox.news:
            with suppress(Exception):
                await self._send(self._take_outbox())
        for task in self._tasks:
            await end(task)
        self._tasks = []
        for line in (self._sender, self._reader):
            if line is not None:
                await line.close_connection()
        self._sender = self._reader = None

    @property
    def is_delivering(self) -> bool:
        """Whether the last attempts to send and to receive succeeded."""
        return not any(self._trouble.values())

    def _note(self, direction: str, trouble: str) -> None:
        if self._trouble[direction] == trouble:
            return
        self._trouble[direction] = trouble
        if trouble:
            logger.warning("tail.lost direction=%s error=%s", direction, trouble)
        else:
            logger.info("tail.works direction=%s", direction)

    # --- what other tasks of this process see -----------------------------------------------

    def publish(self, run_id: UUID, entries: Sequence[LogEntry]) -> None:
        """Never waits, and never keeps more than ``OUTBOX_BYTES``."""
        if self._keeps_own:
            self._own.add(run_id)
            super().publish(run_id, entries)
        if not entries:
            return
        outbox = self._outbox
        size = sum(len(entry.body) for entry in entries)
        if outbox.size_bytes + size > OUTBOX_BYTES:
            # Followers have read this from the database by now, or soon will.
            self._outbox = outbox = _Outbox([])
        outbox.news.append(News(run_id.bytes, entries[0].seq, [entry.body for entry in entries]))
        outbox.size_bytes += size
        self._has_news.set()

    def read(self, run_id: UUID, after: int) -> list[LogEntry]:
        self._follow(run_id)
        return super().read(run_id, after)

    async def wait(
        self, run_id: UUID, after: int, *, timeout_seconds: float, consumer: Consumer | None = None
    ) -> int:
        self._follow(run_id)
        return await super().wait(run_id, after, timeout_seconds=timeout_seconds, consumer=consumer)

    def forget(self, run_id: UUID) -> None:
        self._own.discard(run_id)
        self._followed.pop(run_id.bytes, None)
        super().forget(run_id)

    def _follow(self, run_id: UUID) -> None:
        if self._listens:
            run_buffer = self._run_buffer(run_id)
            if not run_buffer.asked_at:
                self._followed[run_id.bytes] = run_buffer
            run_buffer.asked_at = asyncio.get_running_loop().time()

    def _tidy(self, run_id: UUID, run_buffer: RunBuffer) -> None:
        """Not when its last follower stops waiting, because it is about to come back."""

    async def _sweep_forever(self) -> None:
        while True:
            await asyncio.sleep(LINGER_SECONDS / 2)
            before = asyncio.get_running_loop().time() - LINGER_SECONDS
            for run_id, run_buffer in list(self._runs.items()):
                if run_buffer.waiting or not 0 < run_buffer.asked_at < before:
                    continue
                run_buffer.asked_at = 0.0
                del self._followed[run_id.bytes]
                if run_id not in self._own:
                    del self._runs[run_id]

    # --- out ---------------------------------------------------------------------------------

    async def _send_forever(self) -> None:
        assert self._sender is not None
        while True:
            await self._has_news.wait()
            try:
                await self._send(self._take_outbox())
            except Exception as error:
                # Whatever the client raises for what it reads: the next attempt uses a new
                # connection.
                self._note("send", type(error).__name__)
                # It may be another Redis, or one that was emptied.
                self._expire_at = 0.0
                await self._sender.close_connection()
                await asyncio.sleep(PAUSE_SECONDS)
            else:
                self._note("send", "")

    def _take_outbox(self) -> list[News]:
        self._has_news.clear()
        outbox, self._outbox = self._outbox, _Outbox([])
        return outbox.news

    async def _send(self, news: Sequence[News]) -> None:
        """Sends the messages. If it is cancelled or fails, some may have arrived; the others are
        not sent again."""
        try:
            for part in parts_of(news):
                await self._say(_encode(BufferMessage(self._origin, part)))
            await self._keep_alive()
        except OutOfMemoryError:
            raise
        except ResponseError as error:
            await self._begin_anew(error)
            raise

    async def _say(self, body: bytes) -> None:
        assert self._sender is not None
        self._mean_bytes += (len(body) - self._mean_bytes) / 16
        limit = ("MAXLEN", "~", self._most_messages())
        await self._sender.command("XADD", self._key, *limit, "*", BODY, body, MAC, self._mac(body))

    async def _keep_alive(self) -> None:
        """Lets Redis expire the stream when nothing has been sent for long."""
        assert self._sender is not None
        now = asyncio.get_running_loop().time()
        if now >= self._expire_at:
            await self._sender.command("EXPIRE", self._key, STREAM_SECONDS)
            self._expire_at = now + EXPIRE_SECONDS

    def _most_messages(self) -> int:
        least, most = STREAM_MESSAGES
        return min(most, max(least, int(STREAM_BYTES / self._mean_bytes)))

    def _mac(self, body: bytes) -> bytes:
        return hashlib.blake2b(body, key=self._mac_key, digest_size=MAC_BYTES).digest()

    async def _begin_anew(self, error: ResponseError) -> None:
        """Deletes a key of another type under our name, or a stream whose last number leaves no
        room."""
        if "WRONGTYPE" in str(error) or "XADD" in str(error) or "exhausted" in str(error):
            assert self._sender is not None
            await self._sender.command("DEL", self._key)

    # --- in ----------------------------------------------------------------------------------

    async def _read_forever(self) -> None:
        assert self._reader is not None
        position: bytes | None = None
        while True:
            try:
                # At the end of the stream, whatever it holds: entries from before this process
                # listened may be of a database from before a restored backup.
                position = await self._checked(position)
                while True:
                    self._note("read", "")
                    position = await self._read_once(position)
            except Exception as error:
                self._note("read", type(error).__name__)
                await self._reader.close_connection()
                await asyncio.sleep(PAUSE_SECONDS)

    async def _checked(self, position: bytes | None) -> bytes:
        """``position``, or the end of the stream if the position is behind it: then it is another
        stream."""
        assert self._reader is not None
        newest = await self._reader.command("XREVRANGE", self._key, "+", "-", "COUNT", 1)
        end: bytes = newest[0][0] if newest else b"0-0"
        if position is None or _parts(position) > _parts(end):
            return end
        return position

    async def _read_once(self, position: bytes) -> bytes:
        assert self._reader is not None
        block = ("BLOCK", int(BLOCK_SECONDS * 1000))
        streams = ("STREAMS", self._key, position)
        answer = await self._reader.command("XREAD", "COUNT", 64, *block, *streams)
        if not answer:
            return await self._checked(position)
        changed: dict[bytes, RunBuffer] = {}
        for number, fields in answer[0][1]:
            position = number
            changed |= self._take(fields)
        await self._tell(changed.values())
        return position

    async def _tell(self, changed: Iterable[RunBuffer]) -> None:
        """The followers of these runs, who may consume what has arrived at once."""
        # A message has entries of many runs.
        turn = LoopShare(asyncio.get_running_loop().time)
        for run_buffer in changed:
            run_buffer.tell()
            await turn.go_on()

    def _take(self, fields: object) -> dict[bytes, RunBuffer]:
        """Keeps entries of runs that are followed here. Returns the runs with new entries."""
        message = self._believed(fields)
        if message is None:
            logger.debug("tail.unreadable")
            return {}
        if message.origin == self._origin:
            return {}
        changed: dict[bytes, RunBuffer] = {}
        for news in message.news:
            run_buffer = self._followed.get(news.run)
            if run_buffer is not None and news.bodies:
                self._arrived(run_buffer, news)
                changed[news.run] = run_buffer
        return changed

    def _believed(self, fields: object) -> BufferMessage | None:
        """The message, if a process of this installation wrote it."""
        match fields:
            case [name, bytes() as body, other, bytes() as mac] if (name, other) == (BODY, MAC):
                pass
            case _:
                return None
        if not hmac.compare_digest(mac, self._mac(body)):
            return None
        try:
            return _decode(body)
        except (msgspec.DecodeError, ValueError):
            return None

    def _arrived(self, run_buffer: RunBuffer, news: News) -> None:
        """Adds entries that continue those that are here. Other entries replace them: entries
        behind a gap could not be read, and a follower that has read further finds nothing here
        until it fits again."""
        if run_buffer.entries and run_buffer.entries[-1].seq + 1 != news.first_seq:
            run_buffer.entries.clear()
            run_buffer.size_bytes = 0
        numbered = enumerate(news.bodies, start=news.first_seq)
        self._keep(run_buffer, [LogEntry(seq, body) for seq, body in numbered])


def _parts(number: bytes) -> tuple[int, int]:
    """The two halves of a message's number, which define the order."""
    time, _, count = number.partition(b"-")
    return int(time), int(count or 0)


def parts_of(news: Sequence[News]) -> list[list[News]]:
    """``news`` in messages of a limited size; one batch of a run is never divided."""
    parts: list[list[News]] = [[]]
    size = 0
    for one in news:
        weight = sum(map(len, one.bodies))
        if parts[-1] and size + weight > MESSAGE_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(one)
        size += weight
    return parts
