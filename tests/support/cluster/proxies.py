"""Real proxies with the delivered configurations, adapted only in names, ports and paths."""

import re
import signal
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

import trustme

from tests.support.browser.site import free_port
from tests.support.processes.site import SOON_SECONDS, soon

NAME = "tributary.example.org"


def replaced(text: str, replacements: Iterable[tuple[str, str]]) -> str:
    """Each pattern must find what it replaces."""
    for pattern, replacement in replacements:
        text, count = re.subn(pattern, replacement, text, flags=re.MULTILINE)
        assert count, pattern
    return text


class Proxy(ABC):
    """``webs`` are the ports of the two web processes."""

    # One of tests/support/machine.py.
    name: ClassVar[str]
    delivered: ClassVar[Path]
    # What its log says instead of addresses that hold a secret, if it logs requests at all.
    notes_of_secrets: ClassVar[Sequence[str]] = ()
    # In its log once for each request that it could pass on to no process.
    note_of_failure: ClassVar[str]
    # Statuses for a sign-in form while one process is gone: a redirect, or the proxy's own error.
    statuses_while_one_is_down: ClassVar[set[int]] = {302}

    def __init__(self, folder: Path, *, webs: Sequence[int]) -> None:
        self.folder = folder
        self.webs = webs
        self.http, self.https = free_port(), free_port()
        # The workers of nginx run as another user.
        folder.chmod(0o755)
        self.authority = trustme.CA()
        certificate = self.authority.issue_cert(NAME)
        certificate.private_key_pem.write_to_path(str(folder / "privkey.pem"))
        for pem in certificate.cert_chain_pems:
            pem.write_to_path(str(folder / "fullchain.pem"), append=True)
        self.path = folder / self.delivered.name
        self.path.write_text(self.adapted(self.delivered.read_text()))

    @abstractmethod
    def adapted(self, text: str) -> str:
        """The configuration for this machine."""

    @abstractmethod
    def complaints(self) -> list[str]:
        """What the program itself criticizes in the configuration."""

    @abstractmethod
    def command(self) -> list[str]: ...

    @property
    def environment(self) -> dict[str, str] | None:
        return None

    @property
    def ports(self) -> tuple[int, ...]:
        return self.http, self.https

    def start(self) -> None:
        with (self.folder / "error.log").open("wb") as log:
            self._popen = subprocess.Popen(
                self.command(), stdout=log, stderr=log, env=self.environment
            )
        soon(self._answers)

    def _answers(self) -> bool:
        assert self._popen.poll() is None, self.log
        try:
            for port in self.ports:
                socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            return False
        return True

    @property
    def log(self) -> str:
        """Its access and error logs."""
        return "".join(path.read_text() for path in sorted(self.folder.glob("*.log")))

    def close(self) -> None:
        self._popen.send_signal(signal.SIGTERM)
        self._popen.wait(SOON_SECONDS)
