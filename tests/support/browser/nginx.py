"""A real nginx in front of a site, with an address for each configuration."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

from tests.support.browser.site import BrowserSite
from tests.support.machine import require
from tests.support.processes.site import ROOT, SOON_SECONDS, soon

# Without it nginx speaks HTTP/1.0, and buffers the whole answer.
HTTP11 = "proxy_http_version 1.1;"
WEBSOCKETS = (
    f"{HTTP11} proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $upgrading;"
)
IGNORING = "proxy_buffering on; proxy_ignore_headers X-Accel-Buffering;"
COMPRESSING = "gzip on; gzip_proxied any; gzip_min_length 1; gzip_types text/event-stream;"
# Name of the address: what its location block says besides `proxy_pass`.
SETTINGS = {
    # As somebody writes it who knows nothing of streams.
    "careless": "",
    "careless_with_websockets": WEBSOCKETS,
    "unbuffered": f"proxy_buffering off; {WEBSOCKETS}",
    "ignoring": IGNORING,
    # Over HTTP/1.1 it passes on what comes, buffered or not; but compression waits for more.
    "ignoring_with_websockets": f"{IGNORING} {WEBSOCKETS} {COMPRESSING}",
    "impatient": f"proxy_read_timeout 2s; {WEBSOCKETS}",
    "compressing": f"{WEBSOCKETS} {COMPRESSING}",
}
CONFIGURATION = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    map $http_upgrade $upgrading {{ default upgrade; "" close; }}
    {servers}
}}
"""
SERVER = """
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://127.0.0.1:{behind};
            proxy_set_header Host $http_host;
            {settings}
        }}
    }}
"""


class Address:
    """The site as it is reached by one of nginx's addresses."""

    def __init__(self, site: BrowserSite, port: int) -> None:
        self.port = port
        self._site = site

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def site_port(self) -> int:
        return int(self._site.port)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._site, name)


class Nginx:
    """Ends only the process that it started."""

    def __init__(self, folder: Path, addresses: dict[str, Address], servers: str) -> None:
        self.addresses = addresses
        self._folder = folder
        self._configuration = folder / "nginx.conf"
        self._configuration.write_text(CONFIGURATION.format(folder=folder, servers=servers))

    @classmethod
    def before(cls, site: BrowserSite, folder: Path) -> Nginx:
        """On the first of the site's ``proxy_ports``; one is left for another nginx."""
        ports = site.proxy_ports[: len(SETTINGS)]
        addresses = {name: Address(site, port) for name, port in zip(SETTINGS, ports, strict=True)}
        servers = [
            SERVER.format(port=address.port, behind=site.port, settings=SETTINGS[name])
            for name, address in addresses.items()
        ]
        return cls(folder, addresses, "".join(servers))

    @classmethod
    def by_recipe(cls, lines: str, site: Address, folder: Path, *, port: int) -> Nginx:
        """With the lines that the self-test page gives out, in the places that it says."""
        map_block, location = lines.split("location", 1)
        server = f"{map_block} server {{ listen 127.0.0.1:{port}; location{location} }}"
        return cls(folder, {"recipe": Address(site, port)}, server)

    @classmethod
    def deployed(cls, site: Address, folder: Path, *, port: int) -> Nginx:
        """As deploy/nginx.conf says, but before one process, without TLS, and at one address."""
        text = (ROOT / "deploy" / "nginx.conf").read_text()
        for pattern, instead in (
            (r"server web1:8000[^;]*;", f"server 127.0.0.1:{site.site_port};"),
            (r"server web2:8000[^;]*;", ""),
            (r"ssl_\w+ [^;]*;", ""),
            # The server without TLS only sends people on.
            (r"server \{\s+listen 8080.*?(?=server \{)", ""),
            (r"listen 8443[^;]*;", f"listen 127.0.0.1:{port};"),
            (r"listen \[::\]:8443[^;]*;", ""),
            (r"access_log [^;]*;", "access_log off;"),
            (r"worker_\w+ [^;]*;", ""),
            # It is no usual port, which the usual header leaves out.
            (r"Host +\$host;", "Host $http_host;"),
            (r"(?<= )/tmp/", f"{folder}/"),
        ):
            text, count = re.subn(pattern, instead, text, flags=re.DOTALL)
            assert count, f"deploy/nginx.conf has no {pattern}"
        nginx = cls(folder, {"deployed": Address(site, port)}, "")
        nginx._configuration.write_text(f"daemon off;\n{text}")
        return nginx

    def __getitem__(self, name: str) -> Address:
        return self.addresses[name]

    def start(self) -> None:
        command = [require("nginx"), "-p", self._folder, "-c", self._configuration, "-e", "stderr"]
        with (self._folder / "out.log").open("wb") as log:
            self._popen = subprocess.Popen(command, stdout=log, stderr=log)
        soon(self._is_up)

    def _is_up(self) -> bool:
        log = (self._folder / "out.log").read_text()
        assert self._popen.poll() is None, log
        return (self._folder / "nginx.pid").exists()

    def stop(self) -> None:
        self._popen.terminate()
        self._popen.wait(SOON_SECONDS)
