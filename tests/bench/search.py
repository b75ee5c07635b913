"""How long a search takes among a million messages, and what the index costs, on both databases.

``make bench BENCH=search``; with ``MESSAGES=100000`` before it a smaller one, for a first look. A
twentieth as many conversations; one member may read 1 % of them, another one 60 %. The words of the
messages are as frequent as Zipf's law says, so a query of each kind is a fair one.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from itertools import accumulate
from typing import Any

import django

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()

from django.core.management import call_command
from django.db import connection, transaction
from django.utils import timezone

from chat.models import Conversation, Membership, Message, Role, SearchKind, Team, User, Visibility
from chat.search.find import find, with_words
from chat.search.sources import index
from chat.search.tokens import parse
from tests.bench.both_databases import measured_on_both
from tests.bench.load.arithmetic import percentile

MESSAGES = int(os.environ.get("MESSAGES", "1000000"))
PER_CONVERSATION = 20
VOCABULARY = 50_000
WORDS = (20, 100)
AT_ONCE = 2_000
QUERIES_OF_A_KIND = 20
BAR_MS, BAR_INDEX = 100.0, 1.2
# Which share of the conversations each member may read.
SHARES = {"few": 0.01, "most": 0.60}

Kind = tuple[str, Callable[[random.Random], str]]


def _word(rank: int) -> str:
    """A pronounceable word for each rank, the same in every run."""
    syllables = [
        "ba",
        "ce",
        "di",
        "fo",
        "gu",
        "ha",
        "je",
        "ki",
        "lo",
        "mu",
        "na",
        "pe",
        "ri",
        "so",
        "tu",
        "va",
        "we",
        "xi",
        "yo",
        "zu",
    ]
    text = ""
    while True:
        rank, place = divmod(rank, len(syllables))
        text += syllables[place]
        if not rank:
            return text


KINDS: list[Kind] = [
    ("rare word", lambda chance: _word(chance.randrange(20_000, VOCABULARY))),
    ("common word", lambda chance: _word(chance.randrange(200, 2_000))),
    ("most frequent word", lambda chance: _word(chance.randrange(10))),
    (
        "two words",
        lambda chance: f"{_word(chance.randrange(300))} {_word(chance.randrange(3_000))}",
    ),
    ("phrase", lambda chance: f'"{_word(chance.randrange(50))} {_word(chance.randrange(200))}"'),
    ("prefix", lambda chance: _word(chance.randrange(400, VOCABULARY))[:3]),
    ("excluded", lambda chance: f"{_word(chance.randrange(999))} -{_word(chance.randrange(50))} "),
    ("from a person", lambda chance: f"from:member {_word(chance.randrange(2_000))}"),
    ("before a day", lambda chance: f"before:2026-06-01 {_word(chance.randrange(2_000))}"),
    ("only shared", lambda chance: f"is:shared {_word(chance.randrange(2_000))}"),
]


def report() -> str:
    lines = [
        f"Search among {MESSAGES:,} messages in {MESSAGES // PER_CONVERSATION:,} conversations"
    ]
    for name, found in measured_on_both("tests.bench.search"):
        lines += _told(name, found)
    return "\n".join(lines)


def _told(name: str, found: dict[str, Any]) -> list[str]:
    share = found["index_bytes"] / found["text_bytes"]
    held = "held" if share <= BAR_INDEX else "missed"
    lines = [
        "",
        f"{name}: index {share:.2f} × the text, bar {BAR_INDEX} ×: {held}; "
        f"{found['row_ms']:.2f} ms of CPU for each message",
        f"  {'':<22}{'1 %: p50':>10}{'p95':>8}{'60 %: p50':>12}{'p95':>8}   bar {BAR_MS:.0f} ms",
    ]
    for kind, by_member in found["kinds"].items():
        few, most = by_member["few"], by_member["most"]
        held = "held" if max(few[1], most[1]) <= BAR_MS else "missed"
        figures = f"{few[0]:>10.1f}{few[1]:>8.1f}{most[0]:>12.1f}{most[1]:>8.1f}"
        lines.append(f"  {kind:<22}{figures}   {held}")
    lines.append(f"  {'in the administration':<22}{'all: p50':>10}{'p95':>8}")
    for kind, (half, most) in found["administration"].items():
        lines.append(f"  {kind:<22}{half:>10.1f}{most:>8.1f}")
    return lines


# --- in the process of one database -------------------------------------------------------------


def _measure() -> dict[str, Any]:
    call_command("migrate", verbosity=0)
    chance = random.Random(20_261_126)
    members = _make_rooms(chance)
    text_bytes, row_ms = _make_messages(chance)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return {
        "text_bytes": text_bytes,
        "index_bytes": _index_bytes(),
        "row_ms": row_ms,
        "kinds": {
            kind: {name: _timed(partial(_find, user), make) for name, user in members.items()}
            for kind, make in KINDS
        },
        "administration": {
            kind: _timed(_list, make)
            for kind, make in KINDS
            if kind in ("rare word", "common word", "most frequent word", "two words")
        },
    }


def _make_rooms(chance: random.Random) -> dict[str, User]:
    """Members of a team of their own each, which shares as many conversations as they may read."""
    count = MESSAGES // PER_CONVERSATION
    members, shares = {}, []
    for name, share in SHARES.items():
        user = User.objects.create(email=f"{name}@example.org", name=f"member {name}")
        team = Team.objects.create(name=name)
        Membership.objects.create(team=team, user=user)
        members[name] = user
        shares += [(team, user, Visibility.TEAM)] * int(count * share)
    other = User.objects.create(email="other@example.org", name="Other")
    shares += [(team, other, Visibility.PRIVATE)] * (count - len(shares))
    chance.shuffle(shares)
    Conversation.objects.bulk_create(
        (
            Conversation(team=team, owner=owner, visibility=visibility, title="Room")
            for team, owner, visibility in shares
        ),
        batch_size=AT_ONCE,
    )
    return members


def _make_messages(chance: random.Random) -> tuple[int, float]:
    """Bytes of their text, and milliseconds of CPU of this process to index one."""
    weights = list(accumulate(1 / (rank + 3) for rank in range(VOCABULARY)))
    words = [_word(rank) for rank in range(VOCABULARY)]
    now, text_bytes, seconds = timezone.now(), 0, 0.0
    rooms = list(Conversation.objects.values_list("pk", "owner"))
    for first in range(0, MESSAGES, AT_ONCE):
        messages = []
        for number in range(first, min(first + AT_ONCE, MESSAGES)):
            room, owner = rooms[number % len(rooms)]
            count = chance.randint(*WORDS)
            text = " ".join(chance.choices(words, cum_weights=weights, k=count))
            text_bytes += len(text)
            at = now - timedelta(minutes=MESSAGES - number) / 2
            messages.append(
                Message(
                    conversation_id=room, author_id=owner, role=Role.USER, text=text, created_at=at
                )
            )
        with transaction.atomic():
            Message.objects.bulk_create(messages)
            started = time.process_time()
            index(SearchKind.MESSAGE, *messages)
            seconds += time.process_time() - started
    return text_bytes, 1000 * seconds / MESSAGES


def _find(user: User, words: str) -> None:
    find(user, parse(words))


def _list(words: str) -> None:
    """A page of the administration's list, which has a count of all that was found."""
    rows = Conversation.objects.filter(with_words(words))
    rows.count()
    list(rows.order_by("-updated_at", "-pk")[:100])


def _timed(
    search: Callable[[str], None], make: Callable[[random.Random], str]
) -> tuple[float, float]:
    chance = random.Random(7)
    times = []
    for _ in range(QUERIES_OF_A_KIND):
        words = make(chance)
        started = time.perf_counter()
        search(words)
        times.append(1000 * (time.perf_counter() - started))
    return percentile(times, 0.5), percentile(times, 0.95)


def _index_bytes() -> int:
    """The rows, their own indexes and the index of the words."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT pg_total_relation_size('chat_searchrow')")
        else:
            cursor.execute(
                "SELECT SUM(pgsize) FROM dbstat WHERE name IN ("
                "SELECT name FROM sqlite_master WHERE tbl_name LIKE 'chat_search%')"
            )
        return int(cursor.fetchone()[0])


if __name__ == "__main__":
    print(json.dumps(_measure()))
