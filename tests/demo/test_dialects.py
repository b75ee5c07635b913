"""What the demo does beside its scenes: chains, histories, tools, lists of models, titles."""

import posixpath

import msgspec
import pytest

from chat import dialects, result
from chat.demo import mockups
from chat.demo.models import DEMO_SERVERS
from chat.dialects.base import AssistantTurn, ToolDefinition, Turn
from chat.events import Result
from chat.titles.wording import request_text, title_in
from tests.demo.answers import answer_to, connect, make_prompt, native, with_outputs
from tests.support.upstream.fake import FakeUpstream


async def answer(fake: FakeUpstream, dialect: str, *turns: Turn | str, **members: object) -> Result:
    prompt = make_prompt(*turns, model="tributary/demo-reasoner", **members)
    return await answer_to(fake, dialect, prompt)


async def test_lm_studio_fold_equals_its_result(
    fake: FakeUpstream, subtests: pytest.Subtests
) -> None:
    for scene in ["hello", "tool", "tool fail", "unicode", "think", "error"]:
        with subtests.test(scene):
            found = await answer(fake, "lmstudio", scene)

            theirs = found.ext.upstream_result
            ours = msgspec.to_builtins(found)
            assert theirs
            for item, twin in zip(ours["output"], theirs["output"], strict=True):
                assert {name: item[name] for name in twin} == twin
            assert ours["response_id"] == theirs["response_id"]


async def test_sent_history_is_understood(fake: FakeUpstream, subtests: pytest.Subtests) -> None:
    for dialect in ("lmstudio", "openai_chat"):
        with subtests.test(dialect):
            first = await answer(fake, dialect, "show code")
            earlier = AssistantTurn(result=first)

            found = await answer(fake, dialect, "show code", earlier, "a table")

            text = result.plain_text(found)
            assert "turn 2 of our conversation; before that you asked: “show code”" in text
            assert "Plan for the team day" in text


async def test_stored_history_is_continued(fake: FakeUpstream) -> None:
    first = await answer(fake, "lmstudio", "first")

    found = await answer(
        *(fake, "lmstudio", "first", native(first), "second"),
        previous_response_id=first.response_id,
    )

    assert "turn 2 of our conversation; before that you asked: “first”" in result.plain_text(found)


async def test_model_lists_hold_chat_models(fake: FakeUpstream, subtests: pytest.Subtests) -> None:
    for name in ("lmstudio", "openai_chat"):
        with subtests.test(name):
            dialect = dialects.get(name)
            async with connect(fake, name) as client:
                response = await client.get(dialect.models_path)

            models = dialect.read_models(response.content)
            assert [model.id for model in models][:3] == [
                "tributary/demo-reasoner",
                "tributary/demo-writer",
                "tributary/demo-coder",
            ]


async def test_demo_servers_have_their_models(
    fake: FakeUpstream, subtests: pytest.Subtests
) -> None:
    for server in DEMO_SERVERS:
        dialect = dialects.get(server.dialect)
        if not dialect.models_path:
            continue
        with subtests.test(dialect.name):
            path = posixpath.normpath(f"{server.path}/{dialect.models_path}")
            async with connect(fake) as client:
                response = await client.get(
                    path, headers={**dialect.headers("sk-demo"), "anthropic-version": "2023-06-01"}
                )

            listed = {model.id for model in dialect.read_models(response.content)}
            assert {model.id for model in server.models} <= listed


async def test_demo_writes_titles(fake: FakeUpstream, subtests: pytest.Subtests) -> None:
    for server in DEMO_SERVERS:
        with subtests.test(server.dialect):
            # Words that bring anything else in a conversation.
            asked = request_text("Show a tool, then an error, slowly", "Of course.")
            prompt = make_prompt(asked, model=server.models[0].id)

            found = await answer_to(fake, server.dialect, prompt)

            title = title_in(result.plain_text(found))
            assert title == "Demo title: Show a tool, then an error, slowly"


async def test_unknown_previous_response_is_refused(fake: FakeUpstream) -> None:
    body = {"model": "tributary/demo-writer", "input": "x", "previous_response_id": "resp_0"}
    async with connect(fake) as client:
        response = await client.post("/api/v1/chat", json=body)

    assert response.status_code == 400
    assert response.json()["error"]["code"] == "previous_response_not_found"


async def test_history_of_every_dialect_has_its_turns(
    fake: FakeUpstream, subtests: pytest.Subtests
) -> None:
    for server in DEMO_SERVERS:
        if server.dialect == "xerotier":
            continue
        with subtests.test(server.dialect):
            model = server.models[0].id
            first = await answer_to(fake, server.dialect, make_prompt("first", model=model))

            prompt = make_prompt("first", AssistantTurn(result=first), "second", model=model)
            found = await answer_to(fake, server.dialect, prompt)

            assert "This is turn 2" in result.plain_text(found)
            assert "“first”" in result.plain_text(found)


async def test_results_of_tools_are_told(fake: FakeUpstream, subtests: pytest.Subtests) -> None:
    tool = ToolDefinition(name="tide", description="", schema={"type": "object", "properties": {}})
    for dialect, model in (
        ("openai_chat", "tributary/demo-writer"),
        ("openai_responses", "tributary/demo-agent"),
        ("anthropic_messages", "tributary/demo-thinker"),
    ):
        with subtests.test(dialect):
            asked = make_prompt("tool", model=model, tools=(tool,))
            waiting = await answer_to(fake, dialect, asked)
            given = make_prompt("tool", with_outputs(waiting, "2.4 m"), model=model, tools=(tool,))

            found = await answer_to(fake, dialect, given)

            assert waiting.ext.status == "waiting"
            assert found.ext.status == "completed"
            assert "2.4 m" in result.plain_text(found)


async def test_mockup_files_are_those_of_their_version(fake: FakeUpstream) -> None:
    prompt = make_prompt("Build it, then update it.", model="tributary/demo-mockup")
    text = result.plain_text(await answer_to(fake, "xerotier", prompt))

    async with connect(fake, "xerotier") as client:
        page = await client.get(f"/mockups/{mockups.known_bundle([text])}/index.html")
        missing = await client.get("/mockups/bndl_000000000000/index.html")

    assert (page.status_code, page.headers["content-type"]) == (200, "text/html")
    assert missing.status_code == 404
