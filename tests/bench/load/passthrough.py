"""Twenty lines that copy bytes: Starlette and stock httpx, as anybody would begin.

``UPSTREAM_URL`` names the server behind. Run by uvicorn.
"""

import os
from collections.abc import AsyncIterator

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

# No limit on connections: the default of 100 would queue the 101st stream.
client = httpx.AsyncClient(
    base_url=os.environ["UPSTREAM_URL"],
    timeout=None,
    limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
)


async def chat(request: Request) -> StreamingResponse:
    outgoing = client.build_request("POST", request.url.path, content=await request.body())
    answer = await client.send(outgoing, stream=True)

    async def body() -> AsyncIterator[bytes]:
        try:
            async for data in answer.aiter_raw():
                yield data
        finally:
            await answer.aclose()

    return StreamingResponse(body(), answer.status_code, media_type=answer.headers["content-type"])


app = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])
