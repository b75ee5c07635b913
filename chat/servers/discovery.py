"""Finds LLM servers at the usual ports of this machine, for the page that adds a server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from asgiref.sync import async_to_sync
from django.conf import settings

from chat.dialects import DIALECTS
from chat.dialects.base import ModelInfo
from chat.models import Upstream
from chat.servers.kinds import KINDS, ServerKind
from chat.upstreams.client import list_models
from chat.upstreams.configured import configured_client
from chat.upstreams.corrections import UsualPlaces
from chat.upstreams.failures import UpstreamError

# A server on this machine lists its models within milliseconds.
SECONDS = 1.0
# A container reaches its host by this name, where it has one (Docker, Podman).
CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))
CONTAINER_HOST = "host.docker.internal"
# The models that a server lists, or the kind of its error.
Answer: TypeAlias = list[ModelInfo] | str
# The owner of a model in an OpenAI-compatible list, where the server program names itself.
_KIND_OF_OWNER = {"vllm": "vllm", "llamacpp": "llama-cpp", "library": "ollama"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundServer:
    """A server that answered. ``kind`` is ``None`` where only its API type is known; without a
    ``model_count`` it wants an API key. ``is_added``: a server with this address exists."""

    base_url: str
    kind: ServerKind | None = None
    model_count: int | None = None
    is_added: bool = False


def find_servers() -> list[FoundServer]:
    """Asks all usual ports at the same time, which takes a second at most. The address policy of
    servers holds here, too: it refuses the ports of this installation itself."""
    return async_to_sync(_find)()


async def _find() -> list[FoundServer]:
    known = {url async for url in Upstream.objects.values_list("base_url", flat=True)}
    async with configured_client() as client:

        async def models(base_url: str, dialect: str) -> Answer:
            try:
                async with asyncio.timeout(SECONDS):
                    return await list_models(
                        client, base_url=base_url, dialect=DIALECTS[dialect], key=""
                    )
            except UpstreamError as error:
                return error.info.kind
            except TimeoutError:
                return "timeout"

        asked = (_ask(models, origin, port, known) for origin, port in _origins())
        return [found for found in await asyncio.gather(*asked) if found]


def usual_places() -> UsualPlaces:
    """The usual ports without that of the demo, and the machine around this container."""
    demo = urlsplit(settings.DEMO_UPSTREAM_URL).port if settings.DEMO_UPSTREAM_URL else None
    is_container = any(mark.exists() for mark in CONTAINER_MARKS)
    return UsualPlaces(
        ports=tuple(port for port in settings.SERVER_PORTS if port != demo),
        hosts=(CONTAINER_HOST,) if is_container else (),
    )


def _origins() -> Iterator[tuple[str, int]]:
    places = usual_places()
    for host in ("localhost", *places.hosts):
        for port in places.ports:
            yield f"http://{host}:{port}", port


async def _ask(
    models: Callable[[str, str], Awaitable[Answer]], origin: str, port: int, known: set[str]
) -> FoundServer | None:
    """LM Studio answers both requests; its own API says more, and names models by a ``key``."""
    own, compatible = await asyncio.gather(
        models(origin, "lmstudio"), models(f"{origin}/v1", "openai_chat")
    )
    if isinstance(own, list) and any("key" in model.detail for model in own):
        return _found(KINDS["lm-studio"], origin, len(own), known)
    if isinstance(compatible, list) and compatible:
        kind = _kind_of(compatible, port)
        return _found(kind, f"{origin}/v1", len(compatible), known)
    if compatible == "auth":
        return _found(_kind_of([], port), f"{origin}/v1", None, known)
    return None


def _kind_of(models: list[ModelInfo], port: int) -> ServerKind | None:
    owners = {str(model.detail.get("owned_by")) for model in models}
    for owner, kind in _KIND_OF_OWNER.items():
        if owner in owners:
            return KINDS[kind]
    usual = (kind for kind in KINDS.values() if kind.is_local and kind.dialect == "openai_chat")
    return next((kind for kind in usual if urlsplit(kind.base_url).port == port), None)


def _found(
    kind: ServerKind | None, base_url: str, count: int | None, known: set[str]
) -> FoundServer:
    return FoundServer(kind=kind, base_url=base_url, model_count=count, is_added=base_url in known)
