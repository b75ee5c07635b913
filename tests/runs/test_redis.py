"""Redis is frozen, restarted, or full of somebody else's words: that costs a moment, never content."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest
from channels.layers import channel_layers
from channels_redis.pubsub import RedisPubSubChannelLayer
from redis.asyncio import Redis as Client

from chat import doorbell
from chat.doorbell import GROUP, LAYER, QUEUED, STOPS, Doorbell
from chat.runs import redis_tail
from chat.runs.redis_tail import BODY, MAC, OUTBOX_BYTES, STREAM_SECONDS, RedisTail
from chat.runs.tail import FLUSH_TIMES, TAIL_BYTES, Entry
from tests.support.servers import Redis

SOON_SECONDS = 60
# Tasks that come and go with a connection; thousands would be one for each thing said.
A_FEW = 10
KEY = "tributary:test:tail"


@pytest.fixture(scope="module")
def server() -> Iterator[Redis]:
    """One of our own: it is frozen and killed."""
    if shutil.which("redis-server") is None:
        pytest.skip("no redis-server on this machine")
    server = Redis()
    server.start()
    yield server
    server.close()


@pytest.fixture
def redis(server: Redis) -> Redis:
    server.tell("FLUSHALL")
    return server


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Redis that does not answer is given up on sooner."""
    for module in (doorbell, redis_tail):
        monkeypatch.setattr(module, "ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(redis_tail, "BLOCK_SECONDS", 0.2)
    monkeypatch.setattr(redis_tail, "PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(doorbell, "AGAIN_SECONDS", 0.05)
    monkeypatch.setattr(doorbell, "CHECK_SECONDS", 0.1)
    monkeypatch.setattr(doorbell, "HEAR_SECONDS", 0.5)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(SOON_SECONDS):
        while not holds():
            await asyncio.sleep(0.01)


# --- the tail -----------------------------------------------------------------------------------

StartTail = Callable[..., Awaitable[RedisTail]]


@pytest.fixture
async def start(redis: Redis) -> AsyncIterator[StartTail]:
    tails: list[RedisTail] = []

    async def start(*, secret: str = "s", keeps_own: bool = False, listens: bool) -> RedisTail:
        tail = RedisTail(redis.url, key=KEY, secret=secret, keeps_own=keeps_own, listens=listens)
        await tail.start()
        tails.append(tail)
        if listens:
            await until(lambda: tail.is_delivering)
        return tail

    yield start
    for tail in tails:
        await tail.close()


def entries(first: int, last: int, text: str = "x") -> list[Entry]:
    return [Entry(seq, b'{"%s":%d}' % (text.encode(), seq)) for seq in range(first, last + 1)]


async def until_read(tail: RedisTail, run: uuid.UUID, after: int, wanted: list[Entry]) -> None:
    async with asyncio.timeout(SOON_SECONDS):
        while tail.read(run, after) != wanted:
            await tail.wait(run, after, timeout_seconds=0.05)


async def until_it_flows(runner: RedisTail, server: RedisTail) -> None:
    """Whatever was lost on the way: from now on what is published arrives."""
    run = uuid.uuid4()
    async with asyncio.timeout(SOON_SECONDS):
        while not server.read(run, 0):
            runner.publish(run, entries(1, 1))
            await server.wait(run, 0, timeout_seconds=0.1)


async def test_what_one_process_publishes_wakes_the_followers_of_another(start: StartTail) -> None:
    runner, server = await start(listens=False), await start(listens=True)
    run = uuid.uuid4()
    assert server.read(run, 0) == []
    waiting = asyncio.create_task(server.wait(run, 0, timeout_seconds=3600))
    await asyncio.sleep(0)

    runner.publish(run, entries(1, 3))

    async with asyncio.timeout(SOON_SECONDS):
        await waiting
    assert server.read(run, 1) == entries(2, 3)


async def test_a_process_with_a_runner_shows_its_own_runs_once_and_those_of_others(
    start: StartTail,
) -> None:
    one, other = [await start(keeps_own=True, listens=True) for _ in range(2)]
    its, others = uuid.uuid4(), uuid.uuid4()
    one.read(others, 0)

    one.publish(its, entries(1, 2))
    assert one.read(its, 0) == entries(1, 2)
    other.publish(others, entries(1, 2, "o"))

    await until_read(one, others, 0, entries(1, 2, "o"))
    assert one.read(its, 0) == entries(1, 2)


async def test_a_run_that_nobody_follows_is_not_collected(start: StartTail) -> None:
    runner, server = await start(listens=False), await start(listens=True)
    followed = uuid.uuid4()
    server.read(followed, 0)

    for _ in range(50):
        runner.publish(uuid.uuid4(), entries(1, 5))
    runner.publish(followed, entries(1, 1))

    await until_read(server, followed, 0, entries(1, 1))
    assert list(server._runs) == [followed]


async def test_little_is_kept_of_a_run_that_somebody_else_executes(start: StartTail) -> None:
    runner, server = await start(listens=False), await start(listens=True)
    run = uuid.uuid4()
    server.read(run, 0)
    long = [Entry(seq, b"x" * 100_000) for seq in range(1, 9)]

    for entry in long:
        runner.publish(run, [entry])

    await until_read(server, run, 7, long[7:])
    assert server._runs[run].size_bytes <= FLUSH_TIMES * TAIL_BYTES


async def test_what_was_said_before_a_process_listened_is_not_believed(
    redis: Redis, start: StartTail
) -> None:
    runner, run = await start(listens=False), uuid.uuid4()
    runner.publish(run, entries(1, 5, "before the restore"))
    await until(lambda: redis.tell("XLEN", KEY) == "1")

    server = await start(listens=True)
    assert server.read(run, 0) == []
    runner.publish(run, entries(3, 4, "after it"))

    await until_read(server, run, 2, entries(3, 4, "after it"))
    assert server.read(run, 0) == []


async def test_a_frozen_redis_costs_the_runner_nothing_and_followers_only_the_tail(
    redis: Redis, start: StartTail
) -> None:
    runner, server = await start(listens=False), await start(listens=True)
    run = uuid.uuid4()
    tasks = len(asyncio.all_tasks())

    redis.freeze()
    try:
        for seq in range(1, 2001):
            runner.publish(run, [Entry(seq, b"x" * 10_000)])
            if seq % 100 == 0:
                assert runner._outbox.size_bytes <= OUTBOX_BYTES
                await asyncio.sleep(0)
        await until(lambda: not runner.is_delivering and not server.is_delivering)
        assert len(asyncio.all_tasks()) <= tasks + A_FEW
        assert server.read(run, 0) == []
    finally:
        redis.thaw()

    await until_it_flows(runner, server)


async def test_after_a_restart_of_redis_the_tail_is_served_again(
    redis: Redis, start: StartTail
) -> None:
    runner, server = await start(listens=False), await start(listens=True)
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


async def test_after_a_flush_of_redis_the_tail_is_served_again(
    redis: Redis, start: StartTail
) -> None:
    runner, server = await start(listens=False), await start(listens=True)
    await until_it_flows(runner, server)

    redis.tell("FLUSHALL")
    # Numbered from the clock, as if that had been set back meanwhile.
    redis.tell("XADD", KEY, "1-1", "b", "x")

    await until_it_flows(runner, server)


@pytest.mark.parametrize(
    "command",
    [
        ["SET", KEY, "garbage"],
        ["XADD", KEY, "18446744073709551615-18446744073709551615", "b", "x"],
        ["LPUSH", KEY, "garbage"],
    ],
    ids=["a string", "the last number there is", "a list"],
)
async def test_garbage_in_place_of_the_stream_is_cleared_away(
    redis: Redis, start: StartTail, command: list[str]
) -> None:
    runner, server = await start(listens=False), await start(listens=True)
    redis.tell("DEL", KEY)
    redis.tell(*command)

    await until_it_flows(runner, server)


async def test_an_answer_that_the_client_cannot_make_sense_of_is_asked_for_again() -> None:
    visits = []

    async def talk_nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits.append(writer)
        while said := await reader.read(65536):
            # For each command a list of one message that has neither number nor fields.
            writer.write(b"*1\r\n*0\r\n" * said.count(b"*"))
        writer.close()

    nonsense = await asyncio.start_server(talk_nonsense, "127.0.0.1")
    port = nonsense.sockets[0].getsockname()[1]
    tail = RedisTail(
        f"redis://127.0.0.1:{port}", key=KEY, secret="s", keeps_own=False, listens=True
    )
    await tail.start()
    try:
        await until(lambda: len(visits) > 3)
        assert not tail.is_delivering
    finally:
        await tail.close()
        nonsense.close()


async def test_redis_may_forget_what_nobody_has_added_to_for_long(
    redis: Redis, start: StartTail
) -> None:
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


async def test_what_is_not_of_this_installation_is_not_shown(
    redis: Redis, start: StartTail
) -> None:
    runner, server = await start(listens=False), await start(listens=True)
    stranger = await start(secret="another", listens=False)
    run = uuid.uuid4()
    server.read(run, 0)
    stranger.publish(run, entries(1, 3, "forged"))
    good = redis_tail._encode([b"o" * 16, [[run.bytes, 1, [b"{}"]]]])
    short = redis_tail._encode([b"o" * 16, [[run.bytes[:8], 1, [b"{}"]]]])
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


# --- the doorbell -------------------------------------------------------------------------------


@pytest.fixture
async def bell(redis: Redis) -> AsyncIterator[Doorbell]:
    """Of a process whose layer is Redis; listening."""
    before = channel_layers.set(LAYER, RedisPubSubChannelLayer(hosts=[redis.url]))
    bell = Doorbell()
    listening = asyncio.create_task(bell.listen())
    await until_heard(bell)
    yield bell
    listening.cancel()
    await asyncio.wait({listening})
    del channel_layers.backends[LAYER]
    if before is not None:
        channel_layers.set(LAYER, before)


async def until_heard(bell: Doorbell) -> None:
    """The bell hears what it rings now."""
    heard = bell.subscribe(bell._own_topic)
    async with asyncio.timeout(SOON_SECONDS):
        await heard.wait()
    bell.unsubscribe(bell._own_topic, heard)


async def ring_from_another_process(redis: Redis, topic: str) -> None:
    layer = RedisPubSubChannelLayer(hosts=[redis.url])
    await layer.group_send(GROUP, {"type": "ring", "topics": [topic], "by": "another"})
    await layer.flush()


async def test_rings_of_other_processes_are_heard_after_redis_was_restarted(
    redis: Redis, bell: Doorbell
) -> None:
    heard = bell.subscribe(QUEUED)

    redis.restart()
    await until_heard(bell)
    await ring_from_another_process(redis, QUEUED)

    async with asyncio.timeout(SOON_SECONDS):
        await heard.wait()


async def test_a_subscription_that_was_lost_without_a_word_is_made_again(
    redis: Redis, bell: Doorbell
) -> None:
    heard = bell.subscribe(QUEUED)
    channel_layers[LAYER].groups.clear()

    await until(lambda: not bell.is_heard)
    await until_heard(bell)
    await ring_from_another_process(redis, QUEUED)

    async with asyncio.timeout(SOON_SECONDS):
        await heard.wait()


async def test_rings_for_a_frozen_redis_do_not_pile_up(redis: Redis, bell: Doorbell) -> None:
    heard = bell.subscribe("topic-4999")
    tasks = len(asyncio.all_tasks())
    redis.freeze()
    try:
        for number in range(5000):
            bell.ring(f"topic-{number}")
        async with asyncio.timeout(SOON_SECONDS):
            await heard.wait()
        await until(lambda: not bell.is_heard)
        assert len(bell._unsent) <= doorbell.MOST_UNSENT
        assert len(asyncio.all_tasks()) <= tasks + A_FEW
    finally:
        redis.thaw()

    await until(lambda: bell.is_heard and not bell._unsent)


async def test_garbage_instead_of_a_ring_is_not_listened_to(redis: Redis, bell: Doorbell) -> None:
    heard = bell.subscribe(QUEUED)
    async with Client.from_url(redis.url) as client:
        for garbage in (b"", b"\xc1", b"\x93\x01\x02\x03", b"x" * 100_000):
            assert await client.publish(f"asgi__group__{GROUP}", garbage)

    await ring_from_another_process(redis, QUEUED)

    async with asyncio.timeout(SOON_SECONDS):
        await heard.wait()


async def test_ones_own_ring_is_not_heard_again_when_it_comes_back(
    redis: Redis, bell: Doorbell
) -> None:
    own, others = bell.subscribe(QUEUED), bell.subscribe(STOPS)

    assert await doorbell._send([QUEUED, STOPS], by=bell._own_topic) == ""
    await ring_from_another_process(redis, STOPS)

    async with asyncio.timeout(SOON_SECONDS):
        await others.wait()
    assert not own.is_set()


async def test_what_rings_at_the_same_moment_goes_out_together(
    redis: Redis, bell: Doorbell
) -> None:
    topics = {f"topic-{number}" for number in range(10)}
    other = RedisPubSubChannelLayer(hosts=[redis.url])
    channel = await other.new_channel()
    await other.group_add(GROUP, channel)

    for topic in topics:
        bell.ring(topic)

    heard: list[set[str]] = []
    async with asyncio.timeout(SOON_SECONDS):
        while topics - set().union(*heard):
            message = await other.receive(channel)
            heard.append(topics & set(message["topics"]))
    await other.flush()
    assert len(list(filter(None, heard))) <= 2, (
        "those that rang before the first went out, and after"
    )
