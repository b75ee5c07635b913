"""The project's own dialects read the demo: every scene ends as it is meant to."""

import posixpath

import httpx
import msgspec
import pytest

from chat import dialects, result
from chat.actions.setup import DEMO_SERVERS, DemoServer
from chat.demo.fake import FakeUpstream
from chat.dialects.base import AssistantTurn, Prompt, UserTurn
from chat.events import Result
from chat.wire.sse import Decoder

STATUSES = {
    "hello": "completed",
    "long": "completed",
    "code": "completed",
    "think": "completed",
    "table": "completed",
    "unicode": "completed",
    "slow": "completed",
    "load": "completed",
    "error": "failed",
    "cut": "cut",
}
EXPECTED = [
    *(("lmstudio", scene, status) for scene, status in STATUSES.items()),
    *(("openai_chat", scene, status) for scene, status in STATUSES.items()),
    ("lmstudio", "tool", "completed"),
    ("lmstudio", "tool fail", "completed"),
    ("lmstudio", "refuse", "completed"),
    ("openai_chat", "tool", "completed"),
    ("openai_chat", "refuse", "incomplete"),
]


# What a person types as the base URL: chat completions live under ``/v1``.
BASES = {
    "lmstudio": "",
    "openai_chat": "/v1",
    "openai_completions": "/completions/v1",
    "bitseek": "/bitseek/v1",
}


async def answer_to(fake: FakeUpstream, dialect_name: str, prompt: Prompt) -> Result:
    dialect = dialects.get(dialect_name)
    request = dialect.request(prompt)
    decoder = Decoder()
    parser = dialect.parser(model=prompt.model, options={})
    fold = result.Fold()
    base = fake.url + BASES[dialect_name]
    async with httpx.AsyncClient(base_url=base, trust_env=False) as client:
        try:
            async with client.stream(
                "POST", request.path, content=request.body, headers=request.headers
            ) as response:
                assert response.status_code == 200
                async for data in response.aiter_raw():
                    for frame in decoder.feed(data):
                        for event in parser.feed(frame):
                            fold.add(event)
        except httpx.RemoteProtocolError:
            assert prompt.turns[-1] == UserTurn(text="cut")
    result.finish(parser, fold, "eof")
    assert parser.ending
    return fold.result(parser.ending)


def prompt_for(*turns: UserTurn | AssistantTurn, **members: object) -> Prompt:
    return Prompt(model="tributary/demo-reasoner", turns=turns, **members)


@pytest.mark.parametrize(("dialect", "scene", "status"), EXPECTED)
async def test_every_scene_ends_as_it_is_meant_to(
    fake: FakeUpstream, dialect: str, scene: str, status: str
) -> None:
    found = await answer_to(fake, dialect, prompt_for(UserTurn(text=scene)))

    assert found.ext.status == status
    assert found.ext.vendor == []


@pytest.mark.parametrize("scene", ["hello", "tool", "tool fail", "unicode", "think", "error"])
async def test_our_fold_of_an_lm_studio_answer_is_its_own_result(
    fake: FakeUpstream, scene: str
) -> None:
    found = await answer_to(fake, "lmstudio", prompt_for(UserTurn(text=scene)))

    theirs = found.ext.upstream_result
    ours = msgspec.to_builtins(found)
    assert theirs
    for item, twin in zip(ours["output"], theirs["output"], strict=True):
        assert {name: item[name] for name in twin} == twin
    assert ours["response_id"] == theirs["response_id"]


@pytest.mark.parametrize("dialect", ["lmstudio", "openai_chat"])
async def test_a_history_that_is_sent_along_is_understood(fake: FakeUpstream, dialect: str) -> None:
    first = await answer_to(fake, dialect, prompt_for(UserTurn(text="show code")))
    found = await answer_to(
        fake,
        dialect,
        prompt_for(
            UserTurn(text="show code"), AssistantTurn(result=first), UserTurn(text="a table")
        ),
    )

    text = result.plain_text(found)
    assert "turn 2 of our conversation; before that you asked: “show code”" in text
    assert "A field guide to the Elder" in text


async def test_a_history_that_the_server_keeps_is_continued(fake: FakeUpstream) -> None:
    first = await answer_to(fake, "lmstudio", prompt_for(UserTurn(text="first")))
    found = await answer_to(
        fake,
        "lmstudio",
        prompt_for(
            UserTurn(text="first"),
            AssistantTurn(result=first, is_native=True),
            UserTurn(text="second"),
            previous_response_id=first.response_id,
        ),
    )

    assert "turn 2 of our conversation; before that you asked: “first”" in result.plain_text(found)


@pytest.mark.parametrize("name", ["lmstudio", "openai_chat"])
async def test_the_models_that_can_chat_are_read_from_the_list(
    fake: FakeUpstream, name: str
) -> None:
    dialect = dialects.get(name)
    base = fake.url + BASES[name]
    async with httpx.AsyncClient(base_url=base, trust_env=False) as client:
        response = await client.get(dialect.models_path)

    models = dialect.read_models(response.content)
    assert [model.id for model in models][:3] == [
        "tributary/demo-reasoner",
        "tributary/demo-writer",
        "tributary/demo-coder",
    ]


@pytest.mark.parametrize(
    "server",
    [server for server in DEMO_SERVERS if dialects.get(server.dialect).models_path],
    ids=lambda server: server.dialect,
)
async def test_the_demo_has_the_models_that_its_rows_promise(
    fake: FakeUpstream, server: DemoServer
) -> None:
    dialect = dialects.get(server.dialect)
    path = posixpath.normpath(f"{server.path}/{dialect.models_path}")
    async with httpx.AsyncClient(base_url=fake.url, trust_env=False) as client:
        response = await client.get(
            path, headers={**dialect.headers("sk-demo"), "anthropic-version": "2023-06-01"}
        )

    listed = {model.id for model in dialect.read_models(response.content)}
    assert set(server.models) <= listed
