"""Every scene of the demo as an ended run of a conversation, without a browser or a runner."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache

import httpx
from django.db import transaction

from chat import dialects, events, result
from chat.dialects.base import ToolDefinition
from chat.models import Message, Run
from chat.runs.outcomes import write_ending
from chat.wire.sse import Decoder
from tests.demo.answers import connect, make_prompt
from tests.support.browser.scenes import SCENES, TOOLS, Scene
from tests.support.rooms import Room
from tests.support.upstream.fake import FakeUpstream

SCHEMA = {"type": "object", "properties": {"station": {"type": "string"}}}


@cache
def logs_of_scenes(dialect: str) -> dict[str, Sequence[events.Event]]:
    """The events of each scene of a dialect by its name."""
    return asyncio.run(_play(dialect))


async def _play(dialect: str) -> dict[str, Sequence[events.Event]]:
    scenes = [scene for scene in SCENES if scene.dialect == dialect]
    async with FakeUpstream() as fake:
        return {scene.name: await _log_of(fake, scene) for scene in scenes}


async def _log_of(fake: FakeUpstream, scene: Scene) -> Sequence[events.Event]:
    tools = [ToolDefinition(name=name, description="", schema=SCHEMA) for name in TOOLS]
    prompt = make_prompt(
        scene.text,
        model=f"tributary/{scene.model}",
        parameters=_parameters(scene),
        tools=tuple(tools) if scene.has_tools else (),
    )
    dialect = dialects.get(scene.dialect)
    request = dialect.request(prompt)
    parser = dialect.parser(model=prompt.model, options=prompt.options)
    decoder, log, error = Decoder(), [], None
    async with (
        connect(fake, scene.dialect) as client,
        client.stream(
            "POST",
            request.path,
            content=request.body,
            headers={**dialect.headers(""), **request.headers},
        ) as response,
    ):
        try:
            async for data in response.aiter_raw():
                for frame in decoder.feed(data):
                    log += parser.feed(frame)
        except httpx.RemoteProtocolError as problem:
            error = events.ErrorInfo(message=str(problem), kind="cut")
    fold = result.Fold()
    fold.extend(log)
    return [*log, *result.finish(parser, fold, "failed" if error else "eof", error=error)]


def _parameters(scene: Scene) -> dict[str, object]:
    kinds = {"true": True}
    return {
        name: kinds.get(value, int(value) if value.isdigit() else value)
        for name, value in scene.asks.items()
    }


def played(room: Room, scene: Scene, below: Message | None = None) -> Run:
    run = room.ask(scene.text, below)
    with transaction.atomic():
        write_ending(run, logs_of_scenes(scene.dialect)[scene.name], after=0)
    run.refresh_from_db()
    return run
