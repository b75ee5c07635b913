"""Likely corrections of an address at which a server doesn't answer as expected."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import httpx

from chat.dialects.base import Dialect
from chat.upstreams.client import UpstreamLimits, list_models
from chat.upstreams.failures import UpstreamError

# The right server answers soon, and the person waits for the result of the test.
SECONDS = 5.0
LIMITS = UpstreamLimits(connect_seconds=SECONDS, head_seconds=SECONDS, idle_seconds=SECONDS)

# Ends of an address that belong to the request, copied from a manual or an example.
_ENDPOINTS = (
    "/chat/completions",
    "/completions",
    "/responses",
    "/messages",
    "/embeddings",
    "/models",
    "/api/chat",
    "/api/generate",
    "/api/tags",
    "/api/v1/chat",
    "/api/v1/models",
)
_VERSIONS = ("/api/v1", "/v1")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class UsualPlaces:
    """Usual addresses of servers. ``hosts`` are other names of the machine that people call
    localhost: inside a container that is the container itself."""

    ports: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()


NOWHERE = UsualPlaces()


def other_scheme(base_url: str) -> str:
    """The same address with http instead of https, or the other way round."""
    url = httpx.URL(base_url.strip())
    return str(url.copy_with(scheme="http" if url.scheme == "https" else "https")).rstrip("/")


def other_listeners(base_url: str, places: UsualPlaces, *, is_private: bool) -> Iterator[str]:
    """Addresses to try if nothing listens at ``base_url``. Other ports are tried only on a machine
    of the own network (``is_private``)."""
    url = httpx.URL(base_url.strip())
    if url.port is None:
        yield other_scheme(base_url)
    hosts = places.hosts if url.host in _LOOPBACK else ()
    for host in hosts:
        yield str(url.copy_with(host=host)).rstrip("/")
    for host in (url.host, *hosts) if is_private else ():
        for port in places.ports:
            if (host, port) != (url.host, url.port):
                yield str(url.copy_with(scheme="http", host=host, port=port)).rstrip("/")


class CorrectionSearch:
    """Requests a list of models at other addresses. ``endpoints`` are the paths of the dialect's
    requests."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        *,
        base_url: str,
        dialect: Dialect,
        key: str,
        options: Mapping[str, object],
        endpoints: Sequence[str],
    ) -> None:
        self._client = client
        self._base_url = base_url.strip().rstrip("/")
        self._dialect = dialect
        self._key = key
        self._options = options
        paths = (path.partition("?")[0] for path in endpoints)
        self._endpoints = [*filter(None, paths), *_ENDPOINTS]

    @property
    def shortened(self) -> str:
        """The base URL without the path of a request at its end; empty if there is none."""
        short = _without(self._base_url, self._endpoints)
        return "" if short == self._base_url else short

    async def first(self, others: Iterable[str] = (), *, with_paths: bool = False) -> str:
        """The first base URL at which the server answers, or an empty text: at another path of the
        tested one (``with_paths``), then at ``others``, which never get the key."""
        if not self._dialect.models_path:
            return ""
        try:
            async with asyncio.timeout(SECONDS):
                for url in self._other_paths(self._base_url) if with_paths else ():
                    if await self._works(url, self._key, self._options):
                        return url
                found = await asyncio.gather(*map(self._at_any_path, others))
        except TimeoutError:
            return ""
        return next(filter(None, found), "")

    def _other_paths(self, base_url: str) -> list[str]:
        """The other base URLs, the likeliest first."""
        shortened = _without(base_url, self._endpoints)
        root = _without(shortened, _VERSIONS)
        found = dict.fromkeys((shortened, root, f"{base_url}/v1", f"{root}/v1"))
        return [url for url in found if url != base_url]

    async def _at_any_path(self, base_url: str) -> str:
        for url in (base_url, *self._other_paths(base_url)):
            if await self._works(url):
                return url
        return ""

    async def _works(
        self, base_url: str, key: str = "", options: Mapping[str, object] | None = None
    ) -> bool:
        """Returns whether the server answers. A server that asks for a key counts, too, except at another
        port, where it may be any web server."""
        try:
            return bool(
                await list_models(
                    self._client,
                    base_url=base_url,
                    dialect=self._dialect,
                    key=key,
                    options=options,
                    limits=LIMITS,
                )
            )
        except UpstreamError as error:
            has_same_port = httpx.URL(base_url).port == httpx.URL(self._base_url).port
            return error.info.kind == "auth" and has_same_port


def _without(base: str, ends: Iterable[str]) -> str:
    for end in sorted(ends, key=len, reverse=True):
        if base.endswith(end):
            return base.removesuffix(end).rstrip("/")
    return base
