"""httpx's own transport with our address check: the reference for the one of the product."""

import asyncio
import ssl
from collections.abc import Iterable

import httpcore
import httpx
from httpcore._backends.anyio import AnyIOBackend

from chat.upstreams.addresses import AddressPolicy, AddressRefused


class StockTransport(httpx.AsyncHTTPTransport):
    """Like ``WireTransport``: one connection per request, to a checked address."""

    def __init__(self, *, ssl_context: ssl.SSLContext, policy: AddressPolicy) -> None:
        super().__init__(
            verify=ssl_context,
            trust_env=False,
            # A connection that is kept may be closed by the time of the next POST.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
        )
        # There is no public way to pass a backend to httpx's transport.
        self._pool._network_backend = CheckedBackend(policy)


class CheckedBackend(httpcore.AsyncNetworkBackend):
    """Connects a name to an address that the policy has checked."""

    def __init__(self, policy: AddressPolicy) -> None:
        self._policy = policy
        self._inner = AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._policy.resolve(host, port)
                return await self._dial(addresses, port, timeout, socket_options)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout("no connection in time") from error
        except AddressRefused as error:
            raise httpcore.ConnectError(str(error)) from error
        except OSError as error:
            raise httpcore.ConnectError("no connection") from error

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _dial(
        self,
        addresses: list[str],
        port: int,
        timeout: float | None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None,
    ) -> httpcore.AsyncNetworkStream:
        share = timeout / len(addresses) if timeout else None
        for address in addresses[:-1]:
            try:
                return await self._open(address, port, share, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._open(addresses[-1], port, timeout, socket_options)

    async def _open(
        self,
        address: str,
        port: int,
        timeout: float | None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None,
    ) -> httpcore.AsyncNetworkStream:
        stream = await self._inner.connect_tcp(
            address, port, timeout=timeout, socket_options=socket_options
        )
        return CheckedStream(stream)


class CheckedStream(httpcore.AsyncNetworkStream):
    """A stream that closes its socket when a handshake is cancelled; the original leaves it open
    until garbage collection."""

    def __init__(self, inner: httpcore.AsyncNetworkStream) -> None:
        self._inner = inner

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._inner.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            return await self._inner.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:
            await self._inner.aclose()  # `aclose` aborts the socket before its first await.
            raise

    def get_extra_info(self, info: str) -> object:
        return self._inner.get_extra_info(info)
