"""A site in a process of its own, and API clients that ask it."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from chat import events as canonical
from chat.wire.sse import Decoder, Frame
from tests.support.browser.site import free_port
from tests.support.processes.site import (
    ROOT,
    SOON_SECONDS,
    Process,
    Site,
    SqliteRecords,
    environment,
)

JsonObject = dict[str, Any]
CHAT = "/api/v1/chat"


class ProgramSite(Process):
    """A server process with a token for each kind of actor, and the given servers."""

    ready = Site.ready

    def __init__(self, folder: Path, servers: Sequence[JsonObject]) -> None:
        super().__init__(folder)
        port = free_port()
        self.command = ("serve", "--port", str(port))
        self.url = f"http://127.0.0.1:{port}"
        made = subprocess.run(
            [sys.executable, "-m", "tests.public_api.seed"],
            cwd=ROOT,
            env={**environment(folder), "SERVERS": json.dumps(servers)},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
        self.tokens: dict[str, str] = json.loads(made)["tokens"]
        self.session: str = json.loads(made)["session"]
        self.rows = SqliteRecords(folder / "tributary.sqlite3").rows

    def value(self, statement: str, *values: object) -> Any:
        (row,) = self.rows(statement, *values)
        return next(iter(row.values()))

    def credentials(self, actor: str) -> dict[str, str]:
        """The headers of an actor: one of ``tokens``, or somebody without a valid token."""
        others: dict[str, dict[str, str]] = {
            "anonymous": {},
            "session cookie": {"Cookie": f"sessionid={self.session}"},
            "invented token": {"Authorization": "Bearer trib_" + "x" * 43},
            "basic": {"Authorization": f"Basic {self.tokens['alice']}"},
        }
        if actor in others:
            return others[actor]
        return {"Authorization": f"Bearer {self.tokens[actor]}"}

    @contextlib.contextmanager
    def client(self, actor: str = "alice") -> Iterator[httpx.Client]:
        with httpx.Client(
            base_url=self.url,
            headers=self.credentials(actor),
            timeout=SOON_SECONDS,
            trust_env=False,
            # Nothing is encrypted here, and reading all authorities each time takes 30 ms.
            verify=False,
        ) as client:
            yield client

    def request(
        self, method: str, path: str, *, actor: str = "alice", **options: Any
    ) -> httpx.Response:
        """``options`` are those of httpx."""
        with self.client(actor) as client:
            return client.request(method, path, **options)

    def get(self, path: str, *, actor: str = "alice") -> httpx.Response:
        return self.request("GET", path, actor=actor)

    def ask(self, **body: object) -> JsonObject:
        """The whole answer, without a stream."""
        answer = self.request("POST", CHAT, json=body)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def last_result(self) -> canonical.Result:
        """What the newest run has stored."""
        stored = self.value("SELECT result FROM chat_run ORDER BY id DESC LIMIT 1")
        return canonical.decode_result(stored)


class StreamClient:
    """Reads a streamed answer in a thread of its own."""

    def __init__(self, site: ProgramSite, **body: object) -> None:
        self.frames: list[Frame] = []
        self.headers: httpx.Headers | None = None
        self.has_ended = False
        self._changed = threading.Condition()
        self._site = site
        self._body = {"stream": True, **body}
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        decoder = Decoder()
        with (
            self._site.client() as client,
            client.stream("POST", CHAT, json=self._body) as answer,
        ):
            self._add(answer.headers, [])
            for chunk in answer.iter_raw():
                self._add(answer.headers, decoder.feed(chunk))
        with self._changed:
            self.has_ended = True
            self._changed.notify_all()

    def _add(self, headers: httpx.Headers, frames: list[Frame]) -> None:
        with self._changed:
            self.headers = headers
            self.frames += [frame for frame in frames if frame.event]
            self._changed.notify_all()

    def until(self, holds: Callable[[StreamClient], object]) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: holds(self), SOON_SECONDS):
                raise TimeoutError(f"it did not arrive: {self.names}")

    def until_event(self, *names: str) -> None:
        """Until one of these has come."""
        self.until(lambda client: set(names) & set(client.names))

    def until_ended(self) -> StreamClient:
        self.until(lambda client: client.has_ended)
        return self

    @property
    def names(self) -> list[str | None]:
        return [frame.event for frame in self.frames]

    @property
    def run(self) -> str:
        assert self.headers is not None
        return str(self.headers["tributary-run"])

    @property
    def result(self) -> canonical.Result:
        end = json.loads(self.frames[-1].data)
        assert end["type"] == "chat.end"
        return canonical.decode_result(json.dumps(end["result"]))


class RawClient:
    """Asks for a stream over a socket of its own, which it can close in the middle."""

    def __init__(self, site: ProgramSite, headers: Mapping[str, str], **body: object) -> None:
        host, _, port = site.url.removeprefix("http://").partition(":")
        content = json.dumps({"stream": True, **body})
        head = {
            "Host": host,
            **site.credentials("alice"),
            "Content-Type": "application/json",
            "Content-Length": str(len(content)),
            **headers,
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        self.received = ""
        self._socket = socket.create_connection((host, int(port)), timeout=SOON_SECONDS)
        self._socket.sendall(f"POST {CHAT} HTTP/1.1\r\n{lines}\r\n{content}".encode())

    def until(self, text: str) -> None:
        while text not in self.received:
            data = self._socket.recv(65536)
            assert data, self.received
            self.received += data.decode()

    @property
    def run(self) -> str:
        found = re.search(r"Tributary-Run: ([0-9a-f-]{36})", self.received)
        assert found, self.received
        return found[1].replace("-", "")

    def disconnect(self) -> None:
        self._socket.close()
