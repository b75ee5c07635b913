"""An HTTP proxy through which all requests leave the network (``UPSTREAM_PROXY``)."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

DEFAULT_PORT = 3128


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressProxy:
    """``authorization`` is the value of a header, or empty."""

    host: str
    port: int
    authorization: bytes = field(default=b"", repr=False)

    @classmethod
    def parse(cls, url: str) -> EgressProxy:
        """Reads ``http://user:password@host:port``. Raises ``ValueError`` without the address for
        another scheme or a path."""
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or parts.path.strip("/") or parts.query:
            raise ValueError("must look like http://proxy.example.org:3128")
        credentials = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}".encode()
        has_credentials = parts.username is not None
        return cls(
            host=parts.hostname,
            port=parts.port or DEFAULT_PORT,
            authorization=b"Basic " + base64.b64encode(credentials) if has_credentials else b"",
        )

    @property
    def headers(self) -> list[bytes]:
        return [b"Proxy-Authorization: " + self.authorization] if self.authorization else []

    def connect_head(self, host: str, port: int) -> bytes:
        """The request for a tunnel to a server."""
        name = f"[{host}]" if ":" in host else host
        authority = f"{name}:{port}".encode("ascii")
        lines = [b"CONNECT %s HTTP/1.1" % authority, b"Host: %s" % authority, *self.headers]
        return b"\r\n".join([*lines, b"", b""])
