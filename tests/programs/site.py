"""A site in a process of its own, asked by a program with a token."""

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
from tests.support.processes.site import (
    ROOT,
    SOON_SECONDS,
    Process,
    SqliteRecords,
    environment,
)

JsonObject = dict[str, Any]


class ProgramSite(Process):
    """A server process with a token for each kind of actor, and the given servers. It is asked
    with Alice's."""

    command = ("serve", "--port", "0")
    ready = re.compile(r"serving address=(http://127\.0\.0\.1:\d+)\n")

    def __init__(self, folder: Path, servers: Sequence[JsonObject]) -> None:
        super().__init__(folder)
        self.url = ""
        made = subprocess.run(
            [sys.executable, "-m", "tests.programs.seed"],
            cwd=ROOT,
            env={**environment(folder), "SERVERS": json.dumps(servers)},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
        self.tokens: dict[str, str] = json.loads(made)["tokens"]
        self.token = self.tokens["alice"]
        self.session: str = json.loads(made)["session"]
        self.rows = SqliteRecords(folder / "tributary.sqlite3").rows

    def until_ready(self) -> re.Match[str]:
        found = super().until_ready()
        self.url = found[1]
        return found

    @contextlib.contextmanager
    def client(self) -> Iterator[httpx.Client]:
        with httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=SOON_SECONDS,
            trust_env=False,
        ) as client:
            yield client

    def get(self, path: str) -> JsonObject:
        with self.client() as client:
            answer = client.get(path)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def ask(self, **body: object) -> JsonObject:
        with self.client() as client:
            answer = client.post("/api/v1/chat", json=body)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def last_result(self) -> canonical.Result:
        """What the run that was made last has stored."""
        (row,) = self.rows("SELECT result FROM chat_run ORDER BY id DESC LIMIT 1")
        return canonical.decode_result(row["result"])


class Listener:
    """A streamed answer, read in a thread of its own."""

    def __init__(
        self, site: ProgramSite, headers: JsonObject | None = None, **body: object
    ) -> None:
        self.frames: list[Frame] = []
        self.headers: httpx.Headers | None = None
        self.has_ended = False
        self._changed = threading.Condition()
        self._request = (site, headers or {}, {"stream": True, **body})
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        site, headers, body = self._request
        decoder = Decoder()
        with (
            site.client() as client,
            client.stream("POST", "/api/v1/chat", json=body, headers=headers) as answer,
        ):
            self._tell(answer.headers, [])
            for chunk in answer.iter_raw():
                self._tell(answer.headers, decoder.feed(chunk))
        with self._changed:
            self.has_ended = True
            self._changed.notify_all()

    def _tell(self, headers: httpx.Headers, frames: list[Frame]) -> None:
        with self._changed:
            self.headers = headers
            self.frames += [frame for frame in frames if frame.event]
            self._changed.notify_all()

    def until(self, holds: Callable[[Listener], object]) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: holds(self), SOON_SECONDS):
                raise TimeoutError(f"it did not arrive: {self.names}")

    def until_ended(self) -> None:
        self.until(lambda listener: listener.has_ended)

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


class Leaver:
    """A streamed answer whose client closes its socket when the test says so."""

    def __init__(self, site: ProgramSite, headers: Mapping[str, str], **body: object) -> None:
        host, _, port = site.url.removeprefix("http://").partition(":")
        content = json.dumps({"stream": True, **body})
        head = {
            "Host": host,
            "Authorization": f"Bearer {site.token}",
            "Content-Type": "application/json",
            "Content-Length": str(len(content)),
            **headers,
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        self.received = ""
        self._socket = socket.create_connection((host, int(port)), timeout=SOON_SECONDS)
        self._socket.sendall(f"POST /api/v1/chat HTTP/1.1\r\n{lines}\r\n{content}".encode())

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

    def leave(self) -> None:
        self._socket.close()
