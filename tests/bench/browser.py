"""What the page costs the one who reads it, in headless Chromium against a real server.

``make bench BENCH=answer``: an answer of 100,000 deltas, 500 a second, while somebody types, three
times; with ``DELTAS=20000 ROUNDS=1`` before it a shorter one, for a first look. The processor's own
pace changes by a seventh within a minute on a shared machine, so what counts is the median of the
rounds. The letters are keys for whatever has the
focus, as a person's are: Playwright's way to a named field looks through the whole page each time.
``make bench BENCH=rooms``: how long a conversation of 2,000 turns takes to open beside one of 20,
and what one of 200 costs the main thread and in bytes, to compare with another commit.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from tests.bench.load.arithmetic import percentile
from tests.bench.load.targets import Embedded, Person
from tests.support.chromium import launched
from tests.support.machine import PROGRAMS, find

DELTAS = int(os.environ.get("DELTAS", "100000"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
PER_SECOND = 500
TENTHS = 10
# So often somebody types a letter.
KEY_SECONDS = 0.2
# Beyond the time that the deltas take.
PATIENCE_SECONDS = 60

BAR_KEY_MS = 50.0
BAR_GROWTH = 1.2
BAR_OPENING = 1.5
OPENINGS = 9

# From the key to the frame that shows its letter. A timer of the second frame's task runs when the
# first one has been painted.
WATCH_KEYS = """() => {
  window.keys = [];
  document.getElementById("text").addEventListener("input", event => {
    const began = event.timeStamp;
    requestAnimationFrame(() => setTimeout(() => window.keys.push(performance.now() - began)));
  });
}"""
HAS_ENDED = """() => {
  const answer = document.querySelector("#turns .answer");
  return !answer.hasAttribute("data-live") && !answer.querySelector(".verdict");
}"""
SHOWN = """() => {
  const answer = document.querySelector("#turns .answer");
  return [answer?.textContent.length ?? 0, document.querySelectorAll("*").length];
}"""


def answer_report() -> str:
    if find("chromium") is None:
        return PROGRAMS["chromium"].reason
    rounds = []
    for _ in range(ROUNDS):
        with _site() as (site, person), _tab(site, person) as page:
            rounds.append(_read_along(page))
    return _told(rounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenth:
    """The page after one more tenth of the answer: characters and nodes of the document, seconds
    of its main thread up to now."""

    characters: int
    nodes: int
    task_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    tenths: list[Tenth]
    keys_ms: list[float]
    seconds: float
    is_complete: bool

    def main_thread_us(self, number: int) -> float:
        """Main-thread time for each delta of a tenth, in microseconds."""
        spent = self.tenths[number + 1].task_seconds - self.tenths[number].task_seconds
        return 1e6 * spent / (DELTAS / TENTHS)

    @property
    def growth(self) -> float:
        """What a delta of the dearest later tenth costs the main thread, to one of the first. Not
        of the last one: a page shows only the beginning of a long answer."""
        later = [self.main_thread_us(number) for number in range(1, len(self.tenths) - 1)]
        return max(later) / self.main_thread_us(0)

    def key_ms(self, share: float) -> float:
        return percentile(self.keys_ms, share)

    def nodes(self, number: int) -> float:
        """Nodes for each 1,000 characters of a tenth."""
        before, after = self.tenths[number], self.tenths[number + 1]
        return 1000 * (after.nodes - before.nodes) / max(1, after.characters - before.characters)


def _read_along(page: Page) -> Measured:
    session = page.context.new_cdp_session(page)
    # Of the thread itself: what others take of the machine meanwhile does not count.
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.evaluate(WATCH_KEYS)
    page.locator("#text").fill("Tell me everything about rivers.")
    page.locator("#send").click()
    page.wait_for_selector("#turns .answer[data-live] .flow *")
    page.locator("#text").focus()
    began = time.monotonic()
    tenths = [_tenth(page, session)]
    seconds = DELTAS / PER_SECOND
    letters = 0
    while len(tenths) <= TENTHS and time.monotonic() - began < seconds + PATIENCE_SECONDS:
        page.keyboard.press("a")
        letters += 1
        time.sleep(KEY_SECONDS)
        if time.monotonic() - began >= len(tenths) * seconds / TENTHS:
            tenths.append(_tenth(page, session))
            # The next message: each tenth has as much to do with the composer.
            page.keyboard.press("Control+a")
    until = time.monotonic() + PATIENCE_SECONDS
    is_complete = False
    while not is_complete and time.monotonic() < until:
        is_complete = page.evaluate(HAS_ENDED)
        time.sleep(0.5)
    keys = [float(one) for one in page.evaluate("window.keys")][1:]
    assert len(keys) >= letters - 1, "letters were lost"
    return Measured(
        tenths=tenths,
        keys_ms=keys,
        seconds=time.monotonic() - began,
        is_complete=is_complete,
    )


def _tenth(page: Page, session: Any) -> Tenth:
    characters, nodes = page.evaluate(SHOWN)
    return Tenth(characters=characters, nodes=nodes, task_seconds=_main_thread_seconds(session))


def _told(rounds: list[Measured]) -> str:
    p95 = statistics.median(measured.key_ms(0.95) for measured in rounds)
    growth = statistics.median(measured.growth for measured in rounds)
    return "\n".join(
        (
            f"An answer of {DELTAS:,} deltas at {PER_SECOND} a second, read in Chromium while "
            f"somebody types, {len(rounds)} times",
            *(line for measured in rounds for line in _lines(measured)),
            f"  medians: key to paint p95 {p95:.1f} ms, bar {BAR_KEY_MS:.0f} ms: "
            f"{_verdict(p95 < BAR_KEY_MS)}; dearest tenth to first {growth:.2f} ×, "
            f"bar {BAR_GROWTH} ×: {_verdict(growth <= BAR_GROWTH)}",
        )
    )


def _lines(measured: Measured) -> Iterator[str]:
    p50, p95, longest = (measured.key_ms(share) for share in (0.5, 0.95, 1.0))
    tenths = range(len(measured.tenths) - 1)
    costs = " ".join(f"{measured.main_thread_us(number):.0f}" for number in tenths)
    nodes = " ".join(f"{measured.nodes(number):.1f}" for number in tenths)
    last = measured.tenths[-1]
    yield f"  {measured.seconds:.0f} s, {'complete' if measured.is_complete else 'NOT COMPLETE'}"
    yield (
        f"    key to paint: p50 {p50:.1f} ms, p95 {p95:.1f} ms, longest {longest:.1f} ms "
        f"of {len(measured.keys_ms)} keys"
    )
    yield (
        f"    main thread, µs for each delta, by tenths: {costs}; dearest to first {measured.growth:.2f} ×"
    )
    yield (
        f"    nodes for each 1,000 characters, by tenths: {nodes}; at the end {last.nodes:,} nodes "
        f"and {last.characters:,} characters"
    )


def _verdict(holds: bool) -> str:
    return "held" if holds else "MISSED"


# --- conversations of many turns -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """One opening of a page: milliseconds until it was loaded, milliseconds of its main thread
    until it was quiet, bytes of the page and of its scripts and styles as they are sent."""

    milliseconds: float
    main_thread_ms: float
    page_bytes: int
    other_bytes: int


SIZES = """() => {
  const bytes = kind => performance.getEntriesByType(kind).reduce((all, one) => all + one.encodedBodySize, 0);
  return [performance.getEntriesByType("navigation")[0].loadEventStart, bytes("navigation"), bytes("resource")];
}"""
# Long enough for what a page does after it was loaded: its socket, its first frames.
QUIET_SECONDS = 1.0


def rooms_report() -> str:
    if find("chromium") is None:
        return PROGRAMS["chromium"].reason
    short, middle, long = 20, 200, 2_000
    taken: dict[int, list[Opening]] = {short: [], middle: [], long: []}
    with _site() as (site, person):
        rooms = {turns: site.room_of(person, turns) for turns in taken}
        with _browser(site, person) as page:
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
            for number in range(OPENINGS + 1):
                for turns, room in rooms.items():
                    opening = _open(page, session, f"http://127.0.0.1:{site.port}/c/{room}/")
                    # The first of each finds nothing in any cache.
                    if number:
                        taken[turns].append(opening)
            nodes = page.evaluate("document.querySelectorAll('#turns > article').length")
    medians = {turns: _median(taken[turns], "milliseconds") for turns in taken}
    ratio = medians[long] / medians[short]
    return "\n".join(
        (
            f"Opening a conversation in Chromium, medians of {OPENINGS}, one after the other",
            f"  {short} turns {medians[short]:.0f} ms, {long:,} turns {medians[long]:.0f} ms: "
            f"{ratio:.2f} ×; bar {BAR_OPENING} ×: {_verdict(ratio < BAR_OPENING)}",
            f"  {middle} turns: {medians[middle]:.0f} ms, main thread "
            f"{_median(taken[middle], 'main_thread_ms'):.0f} ms, page "
            f"{_median(taken[middle], 'page_bytes') / 1000:.1f} kB, scripts, styles and fonts "
            f"{_median(taken[middle], 'other_bytes') / 1000:.1f} kB",
            f"  turns on the page of the long one: {nodes}",
        )
    )


def _open(page: Page, session: Any, address: str) -> Opening:
    # Each opening begins with a page that does nothing, so that only its own work is counted.
    page.goto("about:blank")
    before = _main_thread_seconds(session)
    page.goto(address, wait_until="load")
    page.wait_for_selector("#turns > article:last-child .answer")
    time.sleep(QUIET_SECONDS)
    milliseconds, page_bytes, other_bytes = page.evaluate(SIZES)
    return Opening(
        milliseconds=float(milliseconds),
        main_thread_ms=1000 * (_main_thread_seconds(session) - before),
        page_bytes=int(page_bytes),
        other_bytes=int(other_bytes),
    )


def _main_thread_seconds(session: Any) -> float:
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")


def _median(openings: list[Opening], figure: str) -> float:
    return statistics.median(getattr(opening, figure) for opening in openings)


# --- the parts ----------------------------------------------------------------------------------------


class Site(Embedded):
    """Everything in one process on SQLite, as a newcomer has it."""

    def room_of(self, person: Person, turns: int) -> str:
        """A conversation of so many turns of this person, written into the database."""
        return str(self._site("room", person.session, turns))


@contextmanager
def _site() -> Iterator[tuple[Site, Person]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tributary-page-")))
        site = Site(stack.enter_context(_upstream()), folder)
        site.seed(1, 1)
        stack.callback(site.close)
        site.start()
        yield site, site.people(1)[0]


@contextmanager
def _browser(site: Site, person: Person) -> Iterator[Page]:
    with sync_playwright() as playwright, launched(playwright) as browser:
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        address = f"http://127.0.0.1:{site.port}"
        context.add_cookies([{"name": "sessionid", "value": person.session, "url": address}])
        yield context.new_page()


@contextmanager
def _tab(site: Site, person: Person) -> Iterator[Page]:
    with _browser(site, person) as page:
        page.goto(f"http://127.0.0.1:{site.port}/c/{person.conversation}/")
        page.wait_for_selector("#text")
        yield page


def _pattern() -> list[str]:
    """Markdown as answers are: prose with marks, a list, a table, code."""
    prose = ("The ", "*river* ", "is ", "**high** ", "today, ", "and the ", "`mill` ", "stands. ")
    words = prose * 6
    rows = ["| gauge | level |\n", "|---|---|\n", *(f"| {n} | {n * 7} m |\n" for n in range(6))]
    code = [
        "```python\n",
        *(f"level_{n} = gauge[{n}] * 7  # metres\n" for n in range(12)),
        "```\n\n",
    ]
    entries = [f"- entry {n} of a list\n" for n in range(10)]
    return ["## A heading\n\n", *words, "\n\n", *entries, "\n", *rows, "\n", *words, "\n\n", *code]


def _event(content: str) -> bytes:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": None}
    data = f"data: {json.dumps({'object': 'chat.completion.chunk', 'choices': [choice]})}\n\n"
    return b"%x\r\n%b\r\n" % (len(data.encode()), data.encode())


async def _stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    pattern = [_event(text) for text in _pattern()]
    loop = asyncio.get_running_loop()
    began, sent = loop.time(), 0
    while sent < DELTAS:
        due = min(DELTAS, int((loop.time() - began) * PER_SECOND) + 1)
        writer.write(b"".join(pattern[number % len(pattern)] for number in range(sent, due)))
        sent = due
        await writer.drain()
        await asyncio.sleep(1 / PER_SECOND)
    end = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    writer.write(_event("\n\nThat is all.") + b"%x\r\n%b\r\n0\r\n\r\n" % (len(end), end))
    await writer.drain()
    writer.close()


@contextmanager
def _upstream() -> Iterator[int]:
    """A server in a thread of its own; its port."""
    ready: list[int] = []
    has_begun = threading.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        server = await asyncio.start_server(_stream, "127.0.0.1", 0)
        ready.append(server.sockets[0].getsockname()[1])
        has_begun.set()
        await server.serve_forever()

    def run() -> None:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(serving)

    serving = loop.create_task(serve())
    thread = threading.Thread(target=run, name="upstream")
    thread.start()
    has_begun.wait()
    try:
        yield ready[0]
    finally:
        loop.call_soon_threadsafe(serving.cancel)
        thread.join()
        loop.close()


if __name__ == "__main__":
    print({"answer": answer_report, "rooms": rooms_report}[sys.argv[1]]())
