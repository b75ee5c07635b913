"""A Redis that is frozen, restarted or full of foreign data costs a moment, never content."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager

import msgspec
import pytest
from pytest_django import Settings
from redis.asyncio import Redis as Client

from chat.core import lossy_channel, notify
from chat.core.lossy_channel import BODY, MAC, STREAM_SECONDS, LossyChannel
from chat.core.notify import QUEUED, STOPS, ChangeNotifier
from chat.runs import redis_event_buffer
from chat.runs.event_buffer import BUFFER_BYTES, FLUSH_TIMES, LogEntry
from chat.runs.redis_event_buffer import OUTBOX_BYTES, RedisEventBuffer
from tests.support.servers import Redis

SOON_SECONDS = 60
# Tasks that come and go with a connection; thousands would be one for each thing said.
A_FEW = 10
PREFIX = "tributary:test"
KEY = f"{PREFIX}:{redis_event_buffer.STREAM}"
NOTIFICATIONS = f"{PREFIX}:{notify.STREAM}"


@pytest.fixture
def redis(redis_server: Redis) -> Redis:
    """The worker's own, which may be frozen and killed: it answers again when a test ends."""
    redis_server.tell("FLUSHALL")
    return redis_server


@contextmanager
def frozen(redis: Redis) -> Iterator[None]:
    redis.freeze()
    try:
        yield
    finally:
        redis.thaw()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives up sooner on a Redis that does not answer."""
    monkeypatch.setattr(lossy_channel, "ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(lossy_channel, "BLOCK_SECONDS", 0.2)
    monkeypatch.setattr(lossy_channel, "PAUSE_SECONDS", 0.05)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(SOON_SECONDS):
        while not holds():
            await asyncio.sleep(0.01)


# --- the tail -----------------------------------------------------------------------------------

StartTail = Callable[..., Awaitable[RedisEventBuffer]]


@pytest.fixture
async def start(redis: Redis) -> AsyncIterator[StartTail]:
    async with AsyncExitStack() as stack:

        async def start(
            *, secret: str = "s", keeps_own: bool = False, listens: bool
        ) -> RedisEventBuffer:
            buffer = RedisEventBuffer(keeps_own=keeps_own, listens=listens)
            channel = LossyChannel(redis.url, secret=secret, prefix=PREFIX)
            buffer.start(channel)
            await stack.enter_async_context(channel)
            await until(lambda: channel.is_delivering)
            return buffer

        yield start


def channel_of(user: RedisEventBuffer | ChangeNotifier) -> LossyChannel:
    assert user._channel is not None
    return user._channel


def entries(first: int, last: int, text: str = "x") -> list[LogEntry]:
    return [LogEntry(seq, b'{"%s":%d}' % (text.encode(), seq)) for seq in range(first, last + 1)]


async def until_read(
    buffer: RedisEventBuffer, run: uuid.UUID, after: int, wanted: list[LogEntry]
) -> None:
    async with asyncio.timeout(SOON_SECONDS):
        while buffer.read(run, after) != wanted:
            await buffer.wait(run, after, timeout_seconds=0.05)


async def until_it_flows(runner: RedisEventBuffer, server: RedisEventBuffer) -> None:
    """Whatever was lost on the way: from now on what is published arrives."""
    run = uuid.uuid4()
    async with asyncio.timeout(SOON_SECONDS):
        while not server.read(run, 0):
            runner.publish(run, entries(1, 1))
            await server.wait(run, 0, timeout_seconds=0.1)


Pair = tuple[RedisEventBuffer, RedisEventBuffer]


@pytest.fixture
async def pair(start: StartTail) -> Pair:
    """The tails of a process that executes runs and of one that shows them."""
    return await start(listens=False), await start(listens=True)


async def test_entries_wake_followers_of_another_process(pair: Pair) -> None:
    runner, server = pair
    run = uuid.uuid4()
    assert server.read(run, 0) == []
    waiting = asyncio.create_task(server.wait(run, 0, timeout_seconds=3600))
    await asyncio.sleep(0)

    runner.publish(run, entries(1, 3))

    async with asyncio.timeout(SOON_SECONDS):
        await waiting
    assert server.read(run, 1) == entries(2, 3)


async def test_process_with_a_runner_shows_each_run_once(start: StartTail) -> None:
    one, other = [await start(keeps_own=True, listens=True) for _ in range(2)]
    own_run, other_run = uuid.uuid4(), uuid.uuid4()
    one.read(other_run, 0)

    one.publish(own_run, entries(1, 2))
    assert one.read(own_run, 0) == entries(1, 2)
    other.publish(other_run, entries(1, 2, "o"))

    await until_read(one, other_run, 0, entries(1, 2, "o"))
    assert one.read(own_run, 0) == entries(1, 2)


async def test_runs_without_followers_are_not_collected(pair: Pair) -> None:
    runner, server = pair
    followed = uuid.uuid4()
    server.read(followed, 0)

    for _ in range(50):
        runner.publish(uuid.uuid4(), entries(1, 5))
    runner.publish(followed, entries(1, 1))

    await until_read(server, followed, 0, entries(1, 1))
    assert list(server._runs) == [followed]


async def test_little_is_kept_of_runs_of_other_processes(pair: Pair) -> None:
    runner, server = pair
    run = uuid.uuid4()
    server.read(run, 0)
    long = [LogEntry(seq, b"x" * 100_000) for seq in range(1, 9)]

    for entry in long:
        runner.publish(run, [entry])

    await until_read(server, run, 7, long[7:])
    assert server._runs[run].size_bytes <= FLUSH_TIMES * BUFFER_BYTES


async def test_messages_from_before_the_start_are_ignored(redis: Redis, start: StartTail) -> None:
    runner, run = await start(listens=False), uuid.uuid4()
    runner.publish(run, entries(1, 5, "before the restore"))
    await until(lambda: redis.tell("XLEN", KEY) == "1")

    server = await start(listens=True)
    assert server.read(run, 0) == []
    runner.publish(run, entries(3, 4, "after it"))

    await until_read(server, run, 2, entries(3, 4, "after it"))
    assert server.read(run, 0) == []


async def test_frozen_redis_costs_only_the_tail(redis: Redis, pair: Pair) -> None:
    runner, server = pair
    run = uuid.uuid4()
    tasks = len(asyncio.all_tasks())

    with frozen(redis):
        for seq in range(1, 2001):
            runner.publish(run, [LogEntry(seq, b"x" * 10_000)])
            if seq % 100 == 0:
                assert runner._outbox.size_bytes <= OUTBOX_BYTES
                await asyncio.sleep(0)
        channels = channel_of(runner), channel_of(server)
        await until(lambda: not any(channel.is_delivering for channel in channels))
        assert len(asyncio.all_tasks()) <= tasks + A_FEW
        assert server.read(run, 0) == []

    await until_it_flows(runner, server)


async def test_tail_works_again_after_a_restart(redis: Redis, pair: Pair) -> None:
    runner, server = pair
    run = uuid.uuid4()
    server.read(run, 0)
    runner.publish(run, entries(1, 2))
    await until_read(server, run, 0, entries(1, 2))

    redis.restart()
    await until_it_flows(runner, server)

    runner.publish(run, entries(9, 9))
    await until_read(server, run, 8, entries(9, 9))
    # What came before the gap is not what follows on it.
    assert server.read(run, 2) == []


async def test_tail_works_again_after_a_flush(redis: Redis, pair: Pair) -> None:
    await until_it_flows(*pair)

    redis.tell("FLUSHALL")
    # Numbered from the clock, as if that had been set back meanwhile.
    redis.tell("XADD", KEY, "1-1", "b", "x")

    await until_it_flows(*pair)


@pytest.mark.parametrize(
    "command",
    [
        ["SET", KEY, "garbage"],
        ["XADD", KEY, "18446744073709551615-18446744073709551615", "b", "x"],
        ["LPUSH", KEY, "garbage"],
    ],
    ids=["a string", "the last number there is", "a list"],
)
async def test_garbage_in_place_of_the_stream_is_deleted(
    redis: Redis, pair: Pair, command: list[str]
) -> None:
    redis.tell("DEL", KEY)
    redis.tell(*command)

    await until_it_flows(*pair)


async def test_malformed_reply_is_asked_for_again() -> None:
    visits = []

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits.append(writer)
        while said := await reader.read(65536):
            # For each command a list of one message that has neither number nor fields.
            writer.write(b"*1\r\n*0\r\n" * said.count(b"*"))
        writer.close()

    server = await asyncio.start_server(reply, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    channel = LossyChannel(f"redis://127.0.0.1:{port}", secret="s")
    RedisEventBuffer(keeps_own=False, listens=True).start(channel)
    try:
        async with channel:
            await until(lambda: len(visits) > 3)
            assert not channel.is_delivering
    finally:
        server.close()


async def test_unused_stream_expires(redis: Redis, start: StartTail) -> None:
    runner, run = await start(listens=False), uuid.uuid4()
    runner.publish(run, entries(1, 1))
    await until(lambda: 0 < int(redis.tell("TTL", KEY)) <= STREAM_SECONDS)

    # Told again in time, and not with each message.
    redis.tell("EXPIRE", KEY, "1000")
    for seq in range(2, 5):
        runner.publish(run, entries(seq, seq))
        await until(lambda seq=seq: redis.tell("XLEN", KEY) == str(seq))
    assert int(redis.tell("TTL", KEY)) > STREAM_SECONDS
    channel_of(runner)._streams[0].expire_at = 0.0
    runner.publish(run, entries(5, 5))
    await until(lambda: int(redis.tell("TTL", KEY)) <= STREAM_SECONDS)


async def test_messages_of_other_installations_are_ignored(
    redis: Redis, start: StartTail, pair: Pair
) -> None:
    runner, server = pair
    stranger = await start(secret="another", listens=False)
    run = uuid.uuid4()
    server.read(run, 0)
    stranger.publish(run, entries(1, 3, "forged"))
    channel = channel_of(runner)
    [stream] = channel._streams
    good = b"o" * 16 + redis_event_buffer._encode([[run.bytes, 1, [b"{}"]]])
    short = b"o" * 16 + redis_event_buffer._encode([[run.bytes[:8], 1, [b"{}"]]])
    elsewhere = LossyChannel(redis.url, secret="s")
    elsewhere.add_stream(notify.STREAM, channel._streams[0].outbox)
    async with Client.from_url(redis.url) as client:
        for body, mac in (
            (good, b""),
            (good, b"x" * 16),
            # Of another stream.
            (good, elsewhere._mac(elsewhere._streams[0], good)),
            (good[:-1], channel._mac(stream, good)),
            (b"", channel._mac(stream, b"")),
            (short, channel._mac(stream, short)),
            (b"\xff" * 50, channel._mac(stream, b"\xff" * 50)),
            (b"\x93\x01\x02\x03", channel._mac(stream, b"\x93\x01\x02\x03")),
        ):
            await client.xadd(KEY, {BODY: body, MAC: mac})
        await client.xadd(KEY, {b"something": b"else"})
    await until(lambda: redis.tell("XLEN", KEY) == "10")

    await until_it_flows(runner, server)

    assert server.read(run, 0) == []


# --- change notifications -----------------------------------------------------------------------


@pytest.fixture
async def start_notifier(redis: Redis) -> AsyncIterator[Callable[[], Awaitable[ChangeNotifier]]]:
    async with AsyncExitStack() as stack:

        async def start() -> ChangeNotifier:
            notifier = ChangeNotifier()
            channel = LossyChannel(redis.url, secret="s", prefix=PREFIX)
            notifier.start(channel)
            await stack.enter_async_context(channel)
            await until(lambda: channel.is_delivering)
            return notifier

        yield start


Processes = tuple[ChangeNotifier, ChangeNotifier]


@pytest.fixture
async def processes(start_notifier: Callable[[], Awaitable[ChangeNotifier]]) -> Processes:
    """The notifiers of two processes."""
    return await start_notifier(), await start_notifier()


async def until_set(subscription: asyncio.Event) -> None:
    async with asyncio.timeout(SOON_SECONDS):
        await subscription.wait()


async def until_notified(here: ChangeNotifier, there: ChangeNotifier) -> None:
    """Whatever was lost on the way: from now on what ``here`` publishes arrives."""
    subscription = there.subscribe(QUEUED)
    async with asyncio.timeout(SOON_SECONDS):
        while not subscription.is_set():
            here.publish(QUEUED)
            await asyncio.sleep(0.05)
    there.unsubscribe(QUEUED, subscription)


async def test_notification_reaches_other_processes(processes: Processes) -> None:
    here, there = processes
    subscription = there.subscribe(QUEUED)

    await asyncio.to_thread(here.publish, QUEUED)

    await until_set(subscription)


async def test_process_without_an_event_loop_notifies_others(
    redis: Redis, processes: Processes, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.REDIS_URL = redis.url

    def channel(url: str, *, secret: str) -> LossyChannel:
        return LossyChannel(url, secret="s", prefix=PREFIX)

    monkeypatch.setattr(notify, "LossyChannel", channel)
    subscription = processes[0].subscribe(QUEUED)

    await asyncio.to_thread(ChangeNotifier().publish, QUEUED)

    await until_set(subscription)


async def test_notifications_arrive_again_after_a_restart(
    redis: Redis, processes: Processes
) -> None:
    redis.restart()

    await until_notified(*processes)


async def test_notifications_arrive_again_after_a_flush(redis: Redis, processes: Processes) -> None:
    await until_notified(*processes)

    redis.tell("FLUSHALL")
    redis.tell("XADD", NOTIFICATIONS, "1-1", "b", "x")

    await until_notified(*processes)


async def test_busy_stream_does_not_hide_that_another_one_is_new(
    redis: Redis, start: StartTail
) -> None:
    runner, server = await start(listens=False), RedisEventBuffer(keeps_own=False, listens=True)
    here, there = ChangeNotifier(), ChangeNotifier()
    sending, reading = (LossyChannel(redis.url, secret="s", prefix=PREFIX) for _ in range(2))
    here.start(sending)
    there.start(reading)
    server.start(reading)
    async with sending, reading:
        await until_notified(here, there)
        subscription = there.subscribe(QUEUED)
        redis.tell("DEL", NOTIFICATIONS)
        # Numbered from the clock, as if that had been set back meanwhile.
        redis.tell("XADD", NOTIFICATIONS, "1-1", "b", "x")

        async with asyncio.timeout(SOON_SECONDS):
            number = 2
            while not subscription.is_set():
                runner.publish(uuid.uuid4(), entries(1, 1))
                body = b"o" * 16 + msgspec.msgpack.encode([QUEUED])
                mac = sending._mac(sending._streams[0], body)
                async with Client.from_url(redis.url) as client:
                    await client.xadd(NOTIFICATIONS, {BODY: body, MAC: mac}, id=f"1-{number}")
                number += 1


async def test_notifications_for_a_frozen_redis_are_bounded(
    redis: Redis, processes: Processes
) -> None:
    notifier, other = processes
    subscription = notifier.subscribe("topic-4999")
    tasks = len(asyncio.all_tasks())

    with frozen(redis):
        for number in range(5000):
            notifier.publish(f"topic-{number}")
        await until_set(subscription)
        await until(lambda: not channel_of(notifier).is_delivering)
        assert len(notifier._unsent) <= notify.MOST_UNSENT
        assert len(asyncio.all_tasks()) <= tasks + A_FEW

    await until_notified(notifier, other)
    await until(lambda: channel_of(notifier).is_delivering and not notifier._unsent)


async def test_malformed_notifications_are_ignored(redis: Redis, processes: Processes) -> None:
    channel = channel_of(processes[0])
    [stream] = channel._streams
    async with Client.from_url(redis.url) as client:
        for garbage in (b"", b"\xc1", b"\x93\x01\x02\x03", b"\x91\xa1\xff", b"x" * 100_000):
            body = b"o" * 16 + garbage
            await client.xadd(NOTIFICATIONS, {BODY: body, MAC: channel._mac(stream, body)})
            await client.xadd(NOTIFICATIONS, {BODY: body, MAC: b"x" * 16})

    await until_notified(*processes)
    assert all(channel_of(each).is_delivering for each in processes)


async def test_own_notification_is_not_delivered_twice(processes: Processes) -> None:
    here, there = processes
    own, others = here.subscribe(QUEUED), here.subscribe(STOPS)
    here.publish(QUEUED)
    await until_set(own)
    own.clear()

    await until(lambda: not here._unsent)
    there.publish(STOPS)

    await until_set(others)
    assert not own.is_set()


async def test_simultaneous_notifications_are_one_message(
    redis: Redis, processes: Processes
) -> None:
    here, there = processes
    topics = [f"topic-{number}" for number in range(10)]
    last = there.subscribe(topics[-1])

    for topic in topics:
        here.publish(topic)

    await until_set(last)
    # Those from before the first message went out, and those after.
    assert int(redis.tell("XLEN", NOTIFICATIONS)) <= 2
