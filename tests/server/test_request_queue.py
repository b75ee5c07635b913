"""Who is next in the queue of requests: messages, but not only messages."""

import asyncio
import re
from itertools import pairwise
from random import Random
from uuid import uuid4

import pytest
from django.conf import settings
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from chat.core import request_queue as module
from chat.core.request_queue import (
    MESSAGES_IN_A_ROW,
    MOST_WAITING_OF_SENDER,
    Overloaded,
    RequestQueue,
)


class Requests:
    """Requests at a queue, each in its place until the test ends it."""

    def __init__(self, places: int) -> None:
        self.queue = RequestQueue(places)
        self.begun: list[str] = []
        self.inside: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def arrive(self, *names: str) -> None:
        """Names of messages begin with "m"."""
        for name in names:
            self.tasks[name] = asyncio.create_task(self._request(name))
        await settle()

    async def _request(self, name: str) -> None:
        async with self.queue.place(is_message=name.startswith("m")):
            self.begun.append(name)
            self.inside[name] = asyncio.Event()
            await self.inside[name].wait()
            del self.inside[name]

    async def end(self, *names: str) -> None:
        for name in names:
            self.inside[name].set()
            await settle()

    async def end_all(self) -> None:
        while self.inside:
            await self.end(next(iter(self.inside)))


async def settle() -> None:
    for _ in range(6):
        await asyncio.sleep(0)


def numbered(letter: str, count: int) -> list[str]:
    return [f"{letter}{number}" for number in range(count)]


async def test_message_is_next_when_all_places_are_held() -> None:
    requests = Requests(2)
    await requests.arrive("list1", "list2", "list3", "list4", "m1", "m2")
    # One place is for messages only.
    assert requests.begun == ["list1", "list2", "m1"]

    await requests.end("list2")

    assert requests.begun == ["list1", "list2", "m1", "m2"]
    await requests.end_all()
    assert requests.begun[4:] == ["list3", "list4"]


async def test_flood_of_messages_lets_others_through() -> None:
    requests = Requests(1)
    await requests.arrive("list", *numbered("list", 5), *numbered("m", 30))

    await requests.end_all()

    taken = requests.begun
    assert len(taken) == 36
    others = [place for place, name in enumerate(taken) if name.startswith("list")]
    gaps = [after - before for before, after in pairwise(others)]
    assert gaps == [MESSAGES_IN_A_ROW + 1] * 5


async def test_others_have_all_places_when_there_is_no_message() -> None:
    requests = Requests(3)

    await requests.arrive("list1", "list2", "list3", "list4")

    assert requests.begun == ["list1", "list2", "list3"]
    await requests.end_all()


async def test_too_many_messages_are_refused_and_others_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_WAITING_MESSAGES", 2)
    requests = Requests(1)
    await requests.arrive("list", "m0", "m1", "m2", "m3", *numbered("list", 5))

    with pytest.raises(Overloaded) as caught:
        await requests.tasks["m3"]

    assert 1 <= caught.value.seconds <= module.LONGEST_RETRY_SECONDS
    await requests.end_all()
    assert len(requests.begun) == 9
    await requests.arrive("m4")
    assert requests.begun[-1] == "m4"
    await requests.end_all()


async def test_one_sender_can_not_fill_the_queue() -> None:
    queue, may_end = RequestQueue(1), asyncio.Event()

    async def send(sender: str) -> None:
        async with queue.place(is_message=True, sender=sender):
            await may_end.wait()

    flood = [asyncio.create_task(send("a")) for _ in range(MOST_WAITING_OF_SENDER + 10)]
    others = [asyncio.create_task(send(sender)) for sender in ("b", "c", "")]
    await settle()
    refused = [task for task in flood if task.done()]
    may_end.set()
    await asyncio.gather(*others)
    await asyncio.wait(flood)

    # Two have a place, and so many wait.
    assert len(refused) == 8
    assert all(isinstance(task.exception(), Overloaded) for task in refused)
    again = asyncio.create_task(send("a"))
    await again
    assert not queue._waiting_of


@given(
    st.integers(1, 3),
    st.lists(st.sampled_from(["message", "other", "end", "cancel", "cancel-given"]), max_size=40),
    st.randoms(use_true_random=False),
)
def test_places_are_never_lost_nor_given_twice(
    places: int, steps: list[str], random: Random
) -> None:
    asyncio.run(play(places, steps, random))


async def play(places: int, steps: list[str], random: Random) -> None:
    requests = Requests(places)
    left: set[str] = set()
    for number, step in enumerate(steps):
        waiting = [name for name in requests.tasks if name not in {*requests.begun, *left}]
        if step in ("message", "other"):
            await requests.arrive(f"{step[0]}{number}")
        elif step == "end" and requests.inside:
            await requests.end(random.choice(sorted(requests.inside)))
        elif step == "cancel" and waiting:
            left.add(name := random.choice(waiting))
            requests.tasks[name].cancel()
            await settle()
        elif step == "cancel-given" and waiting and requests.inside:
            # A place becomes free, and the request that would get it leaves at the same moment.
            requests.inside[random.choice(sorted(requests.inside))].set()
            for name in waiting:
                await asyncio.sleep(0)
                if not requests.tasks[name].done() and name not in requests.begun:
                    left.add(name)
                    requests.tasks[name].cancel()
                    break
            await settle()
        others = [name for name in requests.inside if name.startswith("o")]
        assert len(others) <= places
        assert len(requests.inside) <= places + 1

    await requests.end_all()

    await settle()
    assert all(task.done() for task in requests.tasks.values())
    assert {*requests.begun} | left == {*requests.tasks}
    # All places are free again.
    await requests.arrive(*(f"o-last{number}" for number in range(places)))
    assert len(requests.inside) == places
    await requests.end_all()


def test_messages_are_what_people_write_and_stop() -> None:
    ids = {"public_id": uuid4()}
    messages = re.compile(settings.MESSAGE_URLS)

    for name in ("conversation_send", "message_edit", "message_retry", "run_stop"):
        assert messages.fullmatch(reverse(name, kwargs=ids)), name
    assert messages.fullmatch(reverse("conversation_new"))
    for name in ("conversation", "conversation_changes", "message_source"):
        assert not messages.fullmatch(reverse(name, kwargs=ids)), name
    assert not messages.fullmatch(reverse("conversation_list"))
