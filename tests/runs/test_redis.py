"""A Redis that is frozen, restarted or full of foreign data costs a moment, never content."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager

import pytest
from channels.layers import channel_layers
from channels_redis.pubsub import RedisPubSubChannelLayer
from redis.asyncio import Redis as Client

from chat.core import notify
from chat.core.notify import GROUP, LAYER, QUEUED, STOPS, ChangeNotifier
from chat.runs import redis_event_buffer
from chat.runs.event_buffer import BUFFER_BYTES, FLUSH_TIMES, LogEntry
from chat.runs.redis_event_buffer import BODY, MAC, OUTBOX_BYTES, STREAM_SECONDS, RedisEventBuffer
from tests.support.servers import Redis

SOON_SECONDS = 60
# Tasks that come and go with a connection; thousands would be one for each thing said.
A_FEW = 10
KEY = "tributary:test:tail"


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
    for module in (notify, redis_event_buffer):
        monkeypatch.setattr(module, "ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(redis_event_buffer, "BLOCK_SECONDS", 0.2)
    monkeypatch.setattr(redis_event_buffer, "PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(notify, "AGAIN_SECONDS", 0.05)
    monkeypatch.setattr(notify, "CHECK_SECONDS", 0.1)
    monkeypatch.setattr(notify, "RETURN_SECONDS", 0.5)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(SOON_SECONDS):
        while not holds():
            await asyncio.sleep(0.01)


# --- the tail -----------------------------------------------------------------------------------

StartTail = Callable[..., Awaitable[RedisEventBuffer]]


@pytest.fixture
async def start(redis: Redis) -> AsyncIterator[StartTail]:
    tails: list[RedisEventBuffer] = []

    async def start(
        *, secret: str = "s", keeps_own: bool = False, listens: bool
    ) -> RedisEventBuffer:
        buffer = RedisEventBuffer(
            redis.url, key=KEY, secret=secret, keeps_own=keeps_own, listens=listens
        )
        await buffer.start()
        tails.append(buffer)
        if listens:
            await until(lambda: buffer.is_delivering)
        return buffer

    yield start
    for buffer in tails:
        await buffer.close()


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
        await until(lambda: not runner.is_delivering and not server.is_delivering)
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
    buffer = RedisEventBuffer(
        f"redis://127.0.0.1:{port}", key=KEY, secret="s", keeps_own=False, listens=True
    )
    await buffer.start()
    try:
        await until(lambda: len(visits) > 3)
        assert not buffer.is_delivering
    finally:
        await buffer.close()
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
    runner._expire_at = 0.0
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
    good = redis_event_buffer._encode([b"o" * 16, [[run.bytes, 1, [b"{}"]]]])
    short = redis_event_buffer._encode([b"o" * 16, [[run.bytes[:8], 1, [b"{}"]]]])
    async with Client.from_url(redis.url) as client:
        for body, mac in (
            (good, b""),
            (good, b"x" * 16),
            (good[:-1], runner._mac(good)),
            (b"", runner._mac(b"")),
            (short, runner._mac(short)),
            (b"\xff" * 50, runner._mac(b"\xff" * 50)),
            (b"\x93\x01\x02\x03", runner._mac(b"\x93\x01\x02\x03")),
        ):
            await client.xadd(KEY, {BODY: body, MAC: mac})
        await client.xadd(KEY, {b"something": b"else"})
    await until(lambda: redis.tell("XLEN", KEY) == "9")

    await until_it_flows(runner, server)

    assert server.read(run, 0) == []


# --- change notifications -----------------------------------------------------------------------


@pytest.fixture
async def notifier(redis: Redis) -> AsyncIterator[ChangeNotifier]:
    """Of a process whose layer is Redis; subscribed."""
    before = channel_layers.set(LAYER, RedisPubSubChannelLayer(hosts=[redis.url]))
    notifier = ChangeNotifier()
    listening = asyncio.create_task(notifier.listen())
    await until_delivered(notifier)
    yield notifier
    listening.cancel()
    await asyncio.wait({listening})
    del channel_layers.backends[LAYER]
    if before is not None:
        channel_layers.set(LAYER, before)


async def until_set(subscription: asyncio.Event) -> None:
    async with asyncio.timeout(SOON_SECONDS):
        await subscription.wait()


async def until_delivered(notifier: ChangeNotifier) -> None:
    """What this process publishes comes back to it."""
    subscription = notifier.subscribe(notifier._own_topic)
    await until_set(subscription)
    notifier.unsubscribe(notifier._own_topic, subscription)


async def publish_from_another_process(redis: Redis, topic: str) -> None:
    layer = RedisPubSubChannelLayer(hosts=[redis.url])
    await layer.group_send(GROUP, {"type": "changed", "topics": [topic], "by": "another"})
    await layer.flush()


async def test_notifications_arrive_again_after_a_restart(
    redis: Redis, notifier: ChangeNotifier
) -> None:
    subscription = notifier.subscribe(QUEUED)

    redis.restart()
    await until_delivered(notifier)
    await publish_from_another_process(redis, QUEUED)

    await until_set(subscription)


async def test_silently_lost_subscription_is_renewed(
    redis: Redis, notifier: ChangeNotifier
) -> None:
    subscription = notifier.subscribe(QUEUED)
    channel_layers[LAYER].groups.clear()

    await until(lambda: not notifier.is_connected)
    await until_delivered(notifier)
    await publish_from_another_process(redis, QUEUED)

    await until_set(subscription)


async def test_notifications_for_a_frozen_redis_are_bounded(
    redis: Redis, notifier: ChangeNotifier
) -> None:
    subscription = notifier.subscribe("topic-4999")
    tasks = len(asyncio.all_tasks())

    with frozen(redis):
        for number in range(5000):
            notifier.publish(f"topic-{number}")
        await until_set(subscription)
        await until(lambda: not notifier.is_connected)
        assert len(notifier._unsent) <= notify.MOST_UNSENT
        assert len(asyncio.all_tasks()) <= tasks + A_FEW

    await until(lambda: notifier.is_connected and not notifier._unsent)


async def test_malformed_notifications_are_ignored(redis: Redis, notifier: ChangeNotifier) -> None:
    subscription = notifier.subscribe(QUEUED)
    async with Client.from_url(redis.url) as client:
        for garbage in (b"", b"\xc1", b"\x93\x01\x02\x03", b"x" * 100_000):
            assert await client.publish(f"asgi__group__{GROUP}", garbage)

    await publish_from_another_process(redis, QUEUED)

    await until_set(subscription)


async def test_own_notification_is_not_delivered_twice(
    redis: Redis, notifier: ChangeNotifier
) -> None:
    own, others = notifier.subscribe(QUEUED), notifier.subscribe(STOPS)

    assert await notify._send([QUEUED, STOPS], by=notifier._own_topic) == ""
    await publish_from_another_process(redis, STOPS)

    await until_set(others)
    assert not own.is_set()


async def test_simultaneous_notifications_are_one_message(
    redis: Redis, notifier: ChangeNotifier
) -> None:
    topics = {f"topic-{number}" for number in range(10)}
    other = RedisPubSubChannelLayer(hosts=[redis.url])
    channel = await other.new_channel()
    await other.group_add(GROUP, channel)

    for topic in topics:
        notifier.publish(topic)

    received: list[set[str]] = []
    async with asyncio.timeout(SOON_SECONDS):
        while topics - set().union(*received):
            message = await other.receive(channel)
            received.append(topics & set(message["topics"]))
    await other.flush()
    # Those from before the first message went out, and those after.
    assert len(list(filter(None, received))) <= 2
