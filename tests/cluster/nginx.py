"""A real nginx with the configuration that deployments get; only names, ports and paths are others."""

import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

import trustme

from tests.processes.site import ROOT, soon

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin")
CONFIGURATION = ROOT / "deploy" / "nginx.conf"
NAME = "tributary.example.org"


def adapted(text: str, folder: Path, *, webs: Sequence[int], http: int, https: int) -> str:
    """The configuration for this machine. Each replacement must find what it replaces."""
    for pattern, replacement in (
        (r"server web1:8000", f"server 127.0.0.1:{webs[0]}"),
        (r"server web2:8000", f"server 127.0.0.1:{webs[1]}"),
        (r"listen 8080 default_server;", f"listen 127.0.0.1:{http} default_server;"),
        (r"listen \[::\]:8080 default_server;", ""),
        (r"listen 8443 ssl", f"listen 127.0.0.1:{https} ssl"),
        (r"listen \[::\]:8443 ssl http2 default_server;", ""),
        (r"/etc/nginx/tls/", f"{folder}/"),
        (r"/tmp/nginx", f"{folder}/nginx"),
        (r"/dev/stdout", f"{folder}/access.log"),
        (r"worker_processes auto;", "worker_processes 2;\ndaemon off;"),
    ):
        text, count = re.subn(pattern, replacement, text)
        assert count, pattern
    return text


class Nginx:
    """Ends only what it started."""

    def __init__(self, folder: Path, *, webs: Sequence[int]) -> None:
        self.folder = folder
        self.http, self.https = _free_port(), _free_port()
        # Its workers are nobody's, and pass through here.
        folder.chmod(0o755)
        self.authority = trustme.CA()
        certificate = self.authority.issue_cert(NAME)
        certificate.private_key_pem.write_to_path(str(folder / "privkey.pem"))
        for pem in certificate.cert_chain_pems:
            pem.write_to_path(str(folder / "fullchain.pem"), append=True)
        self._path = folder / "nginx.conf"
        self._path.write_text(
            adapted(CONFIGURATION.read_text(), folder, webs=webs, http=self.http, https=self.https)
        )

    def _command(self, *arguments: str) -> list[str]:
        assert NGINX is not None
        return [NGINX, "-c", str(self._path), "-p", str(self.folder), *arguments]

    def check(self) -> str:
        """What ``nginx -t`` says."""
        return subprocess.run(
            self._command("-t"), check=True, stderr=subprocess.PIPE, text=True
        ).stderr

    def start(self) -> None:
        with (self.folder / "error.log").open("wb") as log:
            self._popen = subprocess.Popen(self._command(), stderr=log)
        soon(self._answers)

    def _answers(self) -> bool:
        assert self._popen.poll() is None, (self.folder / "error.log").read_text()
        try:
            socket.create_connection(("127.0.0.1", self.https), 1).close()
        except OSError:
            return False
        return True

    @property
    def log(self) -> str:
        return (self.folder / "access.log").read_text()

    def close(self) -> None:
        self._popen.send_signal(signal.SIGTERM)
        self._popen.wait(20)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
