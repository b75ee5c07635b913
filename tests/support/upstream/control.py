"""Control of the fake upstream for tests: scripts, gates, and a record of the requests."""

import asyncio
import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, assert_never

import msgspec

from tests.support.upstream.http import Exchange, Outcome, Request
from tests.support.upstream.script import (
    AnyStep,
    Close,
    Flood,
    Gate,
    Hang,
    Head,
    Pause,
    Raw,
    Reset,
    Script,
    Send,
)

SECRET_HEADERS = frozenset({"authorization", "proxy-authorization", "x-api-key", "cookie"})


def secret_hash(value: str) -> str:
    """What stands in a record instead of a credential: ``sha256:`` and sixteen hex characters."""
    return f"sha256:{hashlib.sha256(value.encode()).hexdigest()[:16]}"


class Record(msgspec.Struct, kw_only=True):
    """One request as the fake saw it. Header names are lower case, credentials are hashes.

    ``outcome`` is ``open`` while the answer goes on, then ``finished`` (completely sent),
    ``left`` (the client went first), ``closed`` or ``reset`` (a script or a scene ended the
    connection early) or ``failed``.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: Any = None
    outcome: Outcome = "open"


class Control:
    """Scripts and gates may be used from any thread; everything else belongs to the server's."""

    def __init__(self) -> None:
        self.posts = 0
        self.disconnects = 0
        self.requests: list[Record] = []
        self.waiting: list[str] = []
        self._lock = threading.Lock()
        self._scripts: list[Script] = []
        self._released: set[str] = set()
        self._sleepers: dict[str, list[asyncio.Future[None]]] = {}
        self._watchers: set[Callable[[], object]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def bind(self) -> None:
        """Tell which loop the gates live in: the running one."""
        self._loop = asyncio.get_running_loop()

    # --- scripts ---------------------------------------------------------------------------------

    def add(self, *scripts: Script) -> None:
        with self._lock:
            self._scripts.extend(scripts)

    def take(self, request: Request) -> Script | None:
        """The first script that fits; it is used up when it was taken ``times`` times."""
        with self._lock:
            for position, script in enumerate(self._scripts):
                if script.fits(request.method, request.path):
                    self._use(position, script)
                    return script
        return None

    def _use(self, position: int, script: Script) -> None:
        if script.times > 1:
            self._scripts[position] = msgspec.structs.replace(script, times=script.times - 1)
        else:
            del self._scripts[position]

    def clear(self) -> None:
        """Forget scripts, gates, counts and records. What is being answered goes on."""
        with self._lock:
            self._scripts.clear()
            self._released.clear()
        self.requests.clear()
        self.posts = self.disconnects = 0

    # --- gates -----------------------------------------------------------------------------------

    async def wait_at(self, gate: str) -> None:
        if gate in self._released:
            return
        sleeper = asyncio.get_running_loop().create_future()
        self._sleepers.setdefault(gate, []).append(sleeper)
        self.waiting.append(gate)
        self.notify()
        try:
            # A release between the look above and here finds the sleeper in its list.
            self._wake()
            await sleeper
        finally:
            self.waiting.remove(gate)
            self._sleepers[gate].remove(sleeper)
            self.notify()

    def release(self, gate: str) -> None:
        """Open a gate for good: for those who wait at it and those who will come."""
        with self._lock:
            self._released.add(gate)
        if self._loop:
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for gate in self._released:
            for sleeper in self._sleepers.get(gate, ()):
                if not sleeper.done():
                    sleeper.set_result(None)

    # --- records ---------------------------------------------------------------------------------

    def record(self, exchange: Exchange) -> Record:
        """Begin the record of a request; it follows the exchange until that has an outcome."""
        request = exchange.request
        self.posts += request.method == "POST"
        record = Record(
            method=request.method,
            path=request.path + (f"?{request.query}" if request.query else ""),
            headers=_safe_headers(request),
            body=_json_or_none(request.body),
        )
        self.requests.append(record)
        exchange.on_change = lambda: self._follow(record, exchange)
        self.notify()
        return record

    def _follow(self, record: Record, exchange: Exchange) -> None:
        record.outcome = exchange.outcome
        # Who was forgotten while being answered, and leaves now, is not counted with the next ones.
        is_known = any(one is record for one in self.requests)
        self.disconnects += is_known and exchange.outcome == "left"
        self.notify()

    # --- watching --------------------------------------------------------------------------------

    @contextlib.contextmanager
    def watched(self, watcher: Callable[[], object]) -> Iterator[None]:
        """Call ``watcher``, in the server's thread, after every change."""
        self._watchers.add(watcher)
        try:
            yield
        finally:
            self._watchers.discard(watcher)

    def notify(self) -> None:
        for watcher in list(self._watchers):
            watcher()


def _safe_headers(request: Request) -> dict[str, str]:
    return {
        name: secret_hash(value) if name in SECRET_HEADERS else value
        for name, value in request.headers
    }


def _json_or_none(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None


# Performing a script on one exchange, step by step.

# A flood that the kernel swallows whole must still let the loop see that the client left.
FLOOD_WRITES_PER_BREATH = 8


class Performance:
    """One script being performed. Cancelled when the client leaves."""

    def __init__(self, exchange: Exchange, control: Control) -> None:
        self._exchange = exchange
        self._control = control

    async def run(self, script: Script) -> None:
        for step in script.steps:
            await self._do(step)
            if self._exchange.outcome != "open":
                return
        await self._begin()
        await self._exchange.finish()

    async def _do(self, step: AnyStep) -> None:
        match step:
            case Head():
                await self._head(step)
            case Send():
                await self._send(step.pieces)
            case Raw():
                # Whatever it is, it stands where the head would.
                self._exchange.has_head = True
                await self._exchange.raw(step.data)
            case Pause():
                await asyncio.sleep(step.seconds)
            case Gate():
                await self._control.wait_at(step.name)
            case Flood():
                await self._flood(step.data, step.times)
            case Hang():
                await asyncio.Event().wait()
            case Close():
                self._exchange.close()
            case Reset():
                self._exchange.reset()
            case _:
                assert_never(step)

    async def _begin(self) -> None:
        if not self._exchange.has_head:
            await self._head(Head())

    async def _head(self, step: Head) -> None:
        await self._exchange.head(
            step.status, step.headers, framing=step.framing, length=step.length
        )

    async def _send(self, pieces: list[bytes]) -> None:
        await self._begin()
        for piece in pieces:
            await self._exchange.write(piece)
            await asyncio.sleep(0)

    async def _flood(self, data: bytes, times: int) -> None:
        await self._begin()
        count = 0
        while not times or count < times:
            await self._exchange.write(data)
            count += 1
            if count % FLOOD_WRITES_PER_BREATH == 0:
                await asyncio.sleep(0)
