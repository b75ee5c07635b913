"""One HTTP request as plain values, for protocols that bring their own client.

The connection, its address and its errors are those of all requests of this package.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

import httpx

from chat.upstreams.client import Client
from chat.upstreams.failures import (
    UpstreamBroken,
    UpstreamError,
    UpstreamRefused,
    error_of,
    failure,
    was_never_sent,
)

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeTimes:
    """``silence_seconds`` is the longest wait for the next byte of a response, also for the first one;
    without it the caller has a limit of its own."""

    connect_seconds: float = 10
    write_seconds: float = 30
    silence_seconds: float | None = None


class ExchangedResponse:
    """A response whose head has arrived, with any status. Close it."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.headers: Headers = response.headers.raw
        self._response = response

    @property
    def is_encoded(self) -> bool:
        encoding = self._response.headers.get("content-encoding", "identity")
        return encoding.strip().lower() not in ("", "identity")

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it arrives. Raises ``UpstreamBroken`` after the data before the failure."""
        try:
            async for data in self._response.aiter_raw():
                yield data
        except httpx.HTTPError as error:
            raise UpstreamBroken(error_of(error, has_output=True)) from error

    async def aclose(self) -> None:
        await self._response.aclose()


async def exchange(
    client: Client, *, method: str, url: str, headers: Headers, body: bytes, times: ExchangeTimes
) -> ExchangedResponse:
    """Sends a request once, and follows no redirect. Raises ``UpstreamError``; if it is an ``UpstreamRefused`` with
    ``never_accepted``, nothing was sent."""
    try:
        request = httpx.Request(
            method,
            url,
            headers=list(headers),
            content=body or None,
            extensions={
                "timeout": httpx.Timeout(
                    connect=times.connect_seconds,
                    write=times.write_seconds,
                    read=times.silence_seconds,
                    pool=None,
                ).as_dict()
            },
        )
        response = await client.send(request, stream=True)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise UpstreamRefused(
            error_of(error, has_output=False), never_accepted=was_never_sent(error)
        ) from error
    answer = ExchangedResponse(response)
    if answer.is_encoded:
        # A small compressed body can expand without limit.
        await answer.aclose()
        raise UpstreamRefused(
            failure("encoded", status=answer.status), never_accepted=False
        ) from None
    return answer


__all__ = ["ExchangeTimes", "ExchangedResponse", "Headers", "UpstreamError", "exchange"]
