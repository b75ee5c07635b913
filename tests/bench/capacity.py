"""A capacity model: what so many people need, and which part of an installation is full first.

``make bench BENCH=capacity`` prints the tables of docs/scaling.md; with ``--write`` it puts them there.
It is arithmetic with costs that were measured, and measures nothing itself. Other assumptions:
``make bench BENCH="capacity --people 5000 --minutes 1 --deltas 1000"``.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "scaling.md"

# --- costs ---------------------------------------------------------------------------------------
# CPU of each process at 200 streams (`make bench BENCH=load`, 2026-11-23), less what one stream alone takes. Everything else was counted on one web process and one runner (docs/scaling.md).

# Milliseconds for each answer, beside its deltas: the message, the claim, the follower, the ending.
ANSWER_MS = {"web": 20.8, "runner": 5.9, "PostgreSQL": 17.4}
# Microseconds for each delta that one viewer sees, and for each further viewer.
DELTA_US = {"web": 33.9, "runner": 41.3, "PostgreSQL": 7.1}
FURTHER_VIEWER_US = 8.0
# Microseconds a second for each open tab: its access and its list are checked.
TAB_US = {"web": 44.0, "PostgreSQL": 39.0}
# Cores of a process that is in use at all; for PostgreSQL, of each runner's commits.
BUSY_CORES = {"web": 0.047, "runner": 0.056, "PostgreSQL": 0.027}
# Each web process reads the messages of all runners: milliseconds for a message, microseconds for a
# delta that nobody follows here.
MESSAGE_MS = 0.14
FOREIGN_DELTA_US = 0.1
# A runner commits up to forty times a second, and each commit is one message.
COMMITS_PER_SECOND = 40
WRITES_PER_ANSWER = 4.2
NOTIFICATIONS_PER_ANSWER = 0.9
REDIS_COMMAND_MS = 0.1
SEGMENTS_PER_DELTA = 0.3
WAL_BYTES_PER_DELTA = 450
WAL_BYTES_PER_ANSWER = 12_600
REDIS_BYTES_PER_DELTA = 75
BROWSER_BYTES_PER_DELTA = 107
# Of a compacted log with its raw frames, for each delta; the texts are simpler than real ones.
STORED_BYTES_PER_DELTA = 7
CONNECTIONS_PER_PROCESS = 9

# --- limits --------------------------------------------------------------------------------------
# Assumptions about machines, not measurements.

USABLE = 0.7
POSTGRES_CORES = 16
POSTGRES_WRITES = 10_000
POSTGRES_WAL_BYTES = 100e6
POSTGRES_CONNECTIONS = 500
REDIS_BYTES = 500e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """What people do in the busiest hour."""

    online_share: float = 0.1
    minutes_between_messages: float = 2.0
    deltas_per_answer: float = 500.0
    deltas_per_second: float = 50.0
    viewers_per_answer: float = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What that is in a second."""

    tabs: float
    answers: float
    streams: float
    deltas: float
    viewers: float = 1.0


def load_of(people: float, habits: Habits) -> Load:
    tabs = people * habits.online_share
    answers = tabs / (60 * habits.minutes_between_messages)
    return Load(
        tabs=tabs,
        answers=answers,
        streams=answers * habits.deltas_per_answer / habits.deltas_per_second,
        deltas=answers * habits.deltas_per_answer,
        viewers=habits.viewers_per_answer,
    )


def own_cores(part: str, load: Load) -> float:
    """What grows with the load, without what each process needs anyway."""
    delta_us = DELTA_US[part]
    if part == "web":
        delta_us += (load.viewers - 1) * FURTHER_VIEWER_US
    return (
        load.answers * ANSWER_MS[part] / 1e3
        + load.deltas * delta_us / 1e6
        + load.tabs * TAB_US.get(part, 0.0) / 1e6
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Processes, and figures a second of what they share."""

    load: Load
    web: float
    runners: int
    reading_cores: float
    postgres_cores: float
    postgres_writes: float
    postgres_wal_bytes: float
    segments: float
    redis_commands: float
    redis_bytes: float
    browser_bytes: float

    @property
    def connections(self) -> float:
        return (self.web + self.runners) * CONNECTIONS_PER_PROCESS

    @property
    def redis_cores(self) -> float:
        return self.redis_commands * REDIS_COMMAND_MS / 1e3


def need_of(load: Load) -> Need:
    runners = max(2, math.ceil(own_cores("runner", load) / (USABLE - BUSY_CORES["runner"])))
    messages = min(load.deltas, runners * COMMITS_PER_SECOND)
    reading = messages * MESSAGE_MS / 1e3 + load.deltas * FOREIGN_DELTA_US / 1e6
    left = USABLE - BUSY_CORES["web"] - reading
    web = max(2, math.ceil(own_cores("web", load) / left)) if left > 0 else math.inf
    return Need(
        load=load,
        web=web,
        runners=runners,
        reading_cores=reading,
        postgres_cores=own_cores("PostgreSQL", load)
        + BUSY_CORES["PostgreSQL"] * messages / COMMITS_PER_SECOND,
        postgres_writes=load.answers * WRITES_PER_ANSWER + messages,
        postgres_wal_bytes=load.answers * WAL_BYTES_PER_ANSWER + load.deltas * WAL_BYTES_PER_DELTA,
        segments=load.deltas * SEGMENTS_PER_DELTA,
        redis_commands=messages * (1 + web) + load.answers * NOTIFICATIONS_PER_ANSWER,
        redis_bytes=load.deltas * REDIS_BYTES_PER_DELTA * web,
        browser_bytes=load.deltas * load.viewers * BROWSER_BYTES_PER_DELTA,
    )


# --- the first wall ------------------------------------------------------------------------------

Share = Callable[[Need], float]
# How much of each limit is used; 1 is full.
WALLS: dict[str, Share] = {
    f"PostgreSQL: connections ({POSTGRES_CONNECTIONS})": lambda need: (
        need.connections / POSTGRES_CONNECTIONS
    ),
    f"PostgreSQL: CPU ({USABLE:.0%} of {POSTGRES_CORES} cores)": lambda need: (
        need.postgres_cores / (USABLE * POSTGRES_CORES)
    ),
    f"PostgreSQL: WAL ({POSTGRES_WAL_BYTES / 1e6:.0f} MB/s)": lambda need: (
        need.postgres_wal_bytes / POSTGRES_WAL_BYTES
    ),
    f"PostgreSQL: writing transactions ({POSTGRES_WRITES:,}/s)": lambda need: (
        need.postgres_writes / POSTGRES_WRITES
    ),
    f"Redis: CPU ({USABLE:.0%} of one core)": lambda need: need.redis_cores / USABLE,
    f"Redis: network ({REDIS_BYTES / 1e6:.0f} MB/s)": lambda need: need.redis_bytes / REDIS_BYTES,
    "a web process: reading the messages of all runners": lambda need: (
        need.reading_cores / (USABLE - BUSY_CORES["web"])
    ),
}


def people_at(share: Share, habits: Habits) -> float:
    """For how many people the limit is just reached."""
    low, high = 10.0, 1e9
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        if share(need_of(load_of(middle, habits))) < 1:
            low = middle
        else:
            high = middle
    return low


# --- the check -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A measurement of the load benchmark (2026-11-23) that the costs were not taken from: CPU of one web
    process and one runner with PostgreSQL and Redis, milliseconds for 1,000 deltas."""

    title: str
    streams: int
    deltas_per_second: float
    deltas_per_answer: int
    streaming_ms: float
    whole_ms: float | None


POINTS = (
    Point(
        title="50 streams",
        streams=50,
        deltas_per_second=2_500,
        deltas_per_answer=450,
        streaming_ms=155,
        whole_ms=252,
    ),
    Point(
        title="100 streams",
        streams=100,
        deltas_per_second=5_000,
        deltas_per_answer=600,
        streaming_ms=131,
        whole_ms=None,
    ),
    Point(
        title="500 streams",
        streams=500,
        # As many as two cores let through.
        deltas_per_second=15_660,
        deltas_per_answer=500,
        streaming_ms=97.7,
        whole_ms=153,
    ),
)


def predicted(point: Point) -> tuple[float, float]:
    """Milliseconds for 1,000 deltas while streaming, and with opening and ending."""
    load = Load(
        tabs=point.streams, answers=0, streams=point.streams, deltas=point.deltas_per_second
    )
    cores = sum(own_cores(part, replace(load, tabs=0)) for part in DELTA_US)
    cores += sum(BUSY_CORES.values()) + 2 * COMMITS_PER_SECOND * REDIS_COMMAND_MS / 1e3
    streaming = cores / point.deltas_per_second * 1e6
    return streaming, streaming + sum(ANSWER_MS.values()) * 1e3 / point.deltas_per_answer


# --- tables --------------------------------------------------------------------------------------

Table = list[list[str]]


def people_table(people: Sequence[int], habits: Habits) -> Table:
    needs = [need_of(load_of(count, habits)) for count in people]
    rows: dict[str, Callable[[Need], float]] = {
        "open tabs": lambda need: need.load.tabs,
        "answers begun a second": lambda need: need.load.answers,
        "answers in progress": lambda need: need.load.streams,
        "deltas a second": lambda need: need.load.deltas,
        "web processes": lambda need: need.web,
        "runners": lambda need: need.runners,
        "PostgreSQL: cores": lambda need: need.postgres_cores,
        "PostgreSQL: writing transactions a second": lambda need: need.postgres_writes,
        "PostgreSQL: segment rows a second": lambda need: need.segments,
        "PostgreSQL: WAL, MB a second": lambda need: need.postgres_wal_bytes / 1e6,
        "PostgreSQL: connections in use": lambda need: need.connections,
        "Redis: commands a second": lambda need: need.redis_commands,
        "Redis: cores": lambda need: need.redis_cores,
        "Redis: MB a second to the web processes": lambda need: need.redis_bytes / 1e6,
        "to browsers, MB a second": lambda need: need.browser_bytes / 1e6,
        "logs kept, GB for eight such hours": lambda need: (
            need.load.deltas * STORED_BYTES_PER_DELTA * 8 * 3600 / 1e9
        ),
    }
    head = ["", *(f"{count:,} people" for count in people)]
    return [
        head,
        *([name, *(_figure(read(need)) for need in needs)] for name, read in rows.items()),
    ]


def wall_table(habits: Habits) -> Table:
    found = sorted((people_at(share, habits), name) for name, share in WALLS.items())
    return [
        ["full first", "at people", "answers in progress"],
        *(
            [name, _rounded(count), _rounded(load_of(count, habits).streams)]
            for count, name in found
        ),
    ]


def check_table() -> Table:
    rows = [["", "while streaming", "predicted", "", "with opening and ending", "predicted", ""]]
    for point in POINTS:
        streaming, whole = predicted(point)
        rows.append(
            [
                point.title,
                *_beside(point.streaming_ms, streaming),
                *(("–", "–", "–") if point.whole_ms is None else _beside(point.whole_ms, whole)),
            ]
        )
    return rows


def _beside(measured: float, guess: float) -> tuple[str, str, str]:
    return f"{measured:.0f}", f"{guess:.0f}", f"{guess / measured - 1:+.0%}"


def _figure(value: float) -> str:
    if math.isinf(value):
        return "impossible"
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.2g}"


def _rounded(value: float) -> str:
    digits = 2 - math.ceil(math.log10(value))
    return f"{round(value, digits):,.0f}"


def markdown(table: Table) -> str:
    head, *rows = table
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


def tables(
    people: Sequence[int] = (100, 10_000, 1_000_000), habits: Habits = Habits()
) -> dict[str, str]:
    """By the names that they have in the document."""
    return {
        "check": markdown(check_table()),
        "people": markdown(people_table(people, habits)),
        "walls": markdown(wall_table(habits)),
    }


def report() -> str:
    return "\n\n".join(tables().values())


def written(text: str) -> str:
    """The document with the tables of today."""
    for name, table in tables().items():
        begin, end = f"<!-- capacity:{name} -->", f"<!-- /capacity:{name} -->"
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}\n{table}\n{end}{after}"
    return text


def main(arguments: Sequence[str]) -> int:
    usual = Habits()
    parser = argparse.ArgumentParser(prog="capacity", description=__doc__)
    parser.add_argument("--people", type=int, nargs="+", default=[100, 10_000, 1_000_000])
    parser.add_argument("--online", type=float, default=usual.online_share, help="share online")
    parser.add_argument("--minutes", type=float, default=usual.minutes_between_messages)
    parser.add_argument(
        "--deltas", type=float, default=usual.deltas_per_answer, help="of an answer"
    )
    parser.add_argument("--viewers", type=float, default=usual.viewers_per_answer)
    parser.add_argument("--write", action="store_true", help="put the tables into the document")
    options = parser.parse_args(arguments)
    if options.write:
        DOCUMENT.write_text(written(DOCUMENT.read_text()))
    habits = Habits(
        online_share=options.online,
        minutes_between_messages=options.minutes,
        deltas_per_answer=options.deltas,
        viewers_per_answer=options.viewers,
    )
    print("\n\n".join(tables(options.people, habits).values()))
    return 0
