"""A real nginx with the delivered configuration."""

import re
import subprocess

from tests.support.cluster.proxies import Proxy, replaced
from tests.support.machine import require
from tests.support.processes.site import ROOT


class Nginx(Proxy):
    name = "nginx"
    delivered = ROOT / "deploy" / "nginx.conf"
    notes_of_secrets = ("/setup/[secret]", "/invite/[secret]")
    note_of_failure = " 502 "

    def adapted(self, text: str) -> str:
        return replaced(
            text,
            (
                (r"server web1:8000", f"server 127.0.0.1:{self.webs[0]}"),
                (r"server web2:8000", f"server 127.0.0.1:{self.webs[1]}"),
                (r"listen 8080 default_server;", f"listen 127.0.0.1:{self.http} default_server;"),
                (r"listen \[::\]:8080 default_server;", ""),
                (r"listen 8443 ssl", f"listen 127.0.0.1:{self.https} ssl"),
                (r"listen \[::\]:8443 ssl http2 default_server;", ""),
                (r"/etc/nginx/tls/", f"{self.folder}/"),
                (r"/tmp/nginx", f"{self.folder}/nginx"),
                (r"/dev/stdout", f"{self.folder}/access.log"),
                (r"worker_processes auto;", "worker_processes 2;\ndaemon off;"),
            ),
        )

    def command(self) -> list[str]:
        return [require(self.name), "-c", str(self.path), "-p", str(self.folder)]

    def complaints(self) -> list[str]:
        said = subprocess.run(
            [*self.command(), "-t"], check=True, stderr=subprocess.PIPE, text=True
        ).stderr
        return [line for line in said.splitlines() if re.search(r"\[(warn|error|emerg)\]", line)]


class PlainNginx(Nginx):
    """Without TLS, for browsers: at an address with a port, and no name."""

    def adapted(self, text: str) -> str:
        return replaced(
            super().adapted(text),
            (
                (r"ssl_\w+ [^;]*;", ""),
                # The server without TLS only redirects.
                (r"server \{\s+listen 127[\d.:]+ default_server;(.|\n)*?(?=server \{)", ""),
                (r"listen (127[\d.]+):\d+ ssl[^;]*;", rf"listen \1:{self.http};"),
                (r"Host +\$host;", "Host $http_host;"),
            ),
        )

    @property
    def ports(self) -> tuple[int, ...]:
        return (self.http,)
