"""Asks the demo with the project's own dialects, as a run does."""

from __future__ import annotations

import httpx

from chat import dialects, result
from chat.dialects.base import AssistantTurn, Prompt, Reply, Turn, UserTurn
from chat.events import ErrorInfo, Result, ToolCallItem
from chat.wire.sse import Decoder
from tests.support.upstream.fake import FakeUpstream

# What a person types as the base URL.
BASES = {
    "anthropic_messages": "/anthropic/v1",
    "bitseek": "/bitseek/v1",
    "lmstudio": "",
    "openai_chat": "/v1",
    "openai_completions": "/completions/v1",
    "openai_responses": "/responses/v1",
    "xerotier": "/xerotier/proj_demo/team/v1",
}


def connect(fake: FakeUpstream, dialect: str = "lmstudio", **members: object) -> httpx.AsyncClient:
    # Without certificates to load: there is no TLS here, and loading them takes most of a test.
    return httpx.AsyncClient(
        base_url=fake.url + BASES[dialect], trust_env=False, verify=False, **members
    )


def make_prompt(*turns: Turn | str, model: str = "any", **members: object) -> Prompt:
    """A conversation whose questions may be given as texts."""
    whole = tuple(UserTurn.of(turn) if isinstance(turn, str) else turn for turn in turns)
    return Prompt(model=model, turns=whole, **members)


async def answer_to(fake: FakeUpstream, dialect_name: str, prompt: Prompt) -> Result:
    dialect = dialects.get(dialect_name)
    request = dialect.request(prompt)
    decoder, fold = Decoder(), result.Fold()
    parser = dialect.parser(model=prompt.model, options=prompt.options)
    headers = {**dialect.headers(""), **request.headers}
    async with (
        connect(fake, dialect_name) as client,
        client.stream("POST", request.path, content=request.body, headers=headers) as response,
    ):
        assert response.status_code == 200, (await response.aread()).decode()
        try:
            async for data in response.aiter_raw():
                for frame in decoder.feed(data):
                    fold.extend(parser.feed(frame))
        except httpx.RemoteProtocolError as error:
            assert "cut" in prompt.turns[-1].text
            info = ErrorInfo(message=str(error), kind="cut")
            result.finish(parser, fold, "failed", error=info)
            return fold.result()
    result.finish(parser, fold)
    return fold.result()


def native(found: Result, *replies: Reply) -> AssistantTurn:
    """The answer as an earlier turn of the same server."""
    return AssistantTurn(result=found, is_native=True, replies=replies)


def with_outputs(found: Result, *outputs: str) -> AssistantTurn:
    """The answer with outputs for its calls, in order."""
    for call, output in zip(calls_in(found), outputs, strict=True):
        call.output, call.status = output, "done"
    return native(found)


def calls_in(found: Result) -> list[ToolCallItem]:
    return [item for item in found.output if isinstance(item, ToolCallItem)]
