"""A network between us and a server that swallows everything while a test wants it to."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Self

PIECE_BYTES = 64 * 1024


class SilentProxy:
    """Passes bytes on, both ways. After `silence` nothing arrives any more, and nobody is told; after
    `speak` what was under way arrives late, as from a network."""

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._may_pass = threading.Event()
        self._may_pass.set()
        self._sockets = [self._listening]
        self._mark = b""

    def silence(self) -> None:
        self._may_pass.clear()

    def silence_at_commit_of(self, text: str) -> None:
        """Once the transaction that holds this text is committed, which nobody is told."""
        self._mark = text.encode()

    def speak(self) -> None:
        self._mark = b""
        self._may_pass.set()

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *error: object) -> None:
        self.speak()
        for each in self._sockets:
            # A thread that reads from it wakes up; `close` alone would leave a thread in it.
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    @staticmethod
    def _start(function: object, *args: object) -> None:
        threading.Thread(target=function, args=args, daemon=True).start()  # type: ignore[arg-type]

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(self._target)
                self._sockets += [client, server]
                self._start(self._pass_on, client, server)
                self._start(self._pass_on, server, client)

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        is_marked = False
        with suppress(OSError):
            while piece := source.recv(PIECE_BYTES):
                self._may_pass.wait()
                is_marked |= bool(self._mark) and self._mark in piece
                if is_marked and b"COMMIT" in piece:
                    self.silence()
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)
