"""Xerotier as the demo speaks it, read with the project's own dialect."""

import re
from contextlib import suppress
from typing import Any

import httpx
import pytest
import pytest_asyncio

from chat import dialects, result
from chat.actions.setup import XEROTIER_MODELS
from chat.demo.apis._xerotier_mockup import Bundles, files_of
from chat.demo.apis._xerotier_scenes import Asked, choose
from chat.demo.apis._xerotier_steps import Say, Wait
from chat.demo.apis.xerotier import TOKENS_PER_SECOND
from chat.demo.fake import FakeUpstream
from chat.dialects.base import AssistantTurn, Prompt, Reply, Turn, UserTurn
from chat.events import MessageItem, Result
from chat.upstreams import client as upstreams
from chat.upstreams.addresses import AddressPolicy
from chat.wire.sse import Decoder

XEROTIER = dialects.get("xerotier")
BASE = "/xerotier/proj_demo/river/v1"
HELLO = UserTurn(text="What about the river?")


@pytest_asyncio.fixture
async def server(fake: FakeUpstream) -> Any:
    async with httpx.AsyncClient(base_url=fake.url + BASE, trust_env=False) as client:
        yield client


async def answer(
    server: httpx.AsyncClient,
    scene: str,
    *turns: Turn,
    options: dict[str, object] | None = None,
    **chosen: object,
) -> Result:
    prompt = Prompt(
        model=f"tributary/demo-{scene}",
        turns=turns or (HELLO,),
        options=options or {},
        parameters=chosen,
    )
    response = await post(server, prompt)
    assert response.status_code == 200, response.text
    parser, fold, decoder = (
        XEROTIER.parser(model=prompt.model, options={}),
        result.Fold(),
        Decoder(),
    )
    for frame in decoder.feed(response.content) + decoder.close():
        fold.extend(parser.feed(frame))
    result.finish(parser, fold)
    return fold.result()


async def post(server: httpx.AsyncClient, prompt: Prompt) -> httpx.Response:
    """The whole answer, or as much of it as came before the connection was cut."""
    request = XEROTIER.request(prompt)
    body = b""
    async with server.stream("POST", request.path, content=request.body) as response:
        with suppress(httpx.RemoteProtocolError):
            async for data in response.aiter_raw():
                body += data
    return httpx.Response(response.status_code, content=body)


def native(found: Result, *replies: Reply) -> AssistantTurn:
    return AssistantTurn(result=found, is_native=True, replies=replies)


def phases(found: Result) -> set[str]:
    return {step["phase"] for step in found.ext.activity}


# --- the scenes -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scene", "status"),
    [
        *(("research", "completed"), ("deep-think", "completed"), ("analyst", "completed")),
        *(("artifacts", "completed"), ("mockup", "completed"), ("question", "waiting")),
        *(("fork", "completed"), ("anything-else", "completed")),
    ],
)
async def test_every_scene_ends_as_it_is_meant_to(
    server: httpx.AsyncClient, scene: str, status: str
) -> None:
    found = await answer(server, scene)

    assert found.ext.status == status
    assert found.ext.vendor == []
    assert found.ext.meta.get("unknown_members") is None
    assert phases(found) <= {"done", "note"}
    assert found.stats.total_output_tokens


@pytest.mark.parametrize(
    ("word", "status", "reason", "code"),
    [
        ("refuse", "incomplete", "refusal", None),
        ("error", "failed", "error", "timeout"),
        ("preempted", "failed", "error", "preempted"),
        ("cut", "cut", "cut", None),
    ],
)
@pytest.mark.parametrize("scene", ["research", "mockup", "question", "anything-else"])
async def test_words_choose_how_an_answer_ends(
    server: httpx.AsyncClient, scene: str, word: str, status: str, reason: str, code: str | None
) -> None:
    found = await answer(server, scene, UserTurn(text=f"Please {word} now"))

    assert (found.ext.status, found.ext.stop.reason) == (status, reason)
    assert (found.ext.error.code if found.ext.error else None) == code


async def test_silence_is_filled_with_signs_of_life(server: httpx.AsyncClient) -> None:
    prompt = Prompt(model="tributary/demo-analyst", turns=(UserTurn(text="slow"),))

    body = (await post(server, prompt)).content

    assert body.count(b": heartbeat\n\n") == 2


@pytest.mark.parametrize("model", XEROTIER_MODELS)
def test_a_person_can_watch_a_scene(model: str) -> None:
    steps = choose(Asked(model=model, text="two"), Bundles()).steps
    waiting = sum(step.seconds for step in steps if isinstance(step, Wait))
    writing = sum(len(step.text) / 4.5 for step in steps if isinstance(step, Say))

    assert 3 <= waiting + writing / TOKENS_PER_SECOND <= 45


async def test_research_shows_pages_with_their_durations(server: httpx.AsyncClient) -> None:
    found = await answer(server, "research")

    pages = [step["detail"] for step in found.ext.activity if step["step"] == "reading"]
    assert len(pages) == 3
    assert all(page["url"].startswith("https://") for page in pages)
    assert all(page["metadata"]["duration_ms"] > 0 for page in pages)
    assert pages[0]["url"] in result.plain_text(found)


async def test_deep_think_has_a_plan_whose_parts_are_all_done(server: httpx.AsyncClient) -> None:
    found = await answer(server, "deep-think")

    parts = [step for step in found.ext.activity if step["step"] == "subtask"]
    (plan,) = [step for step in found.ext.activity if step["step"] == "planning"]
    assert len(parts) == plan["detail"]["total_subtasks"] == 4
    assert all(part["phase"] == "done" and part["detail"]["input_tokens"] for part in parts)
    assert [part["label"].split(":")[0] for part in parts] == [
        f"Part {n} of 4" for n in (1, 2, 3, 4)
    ]


@pytest.mark.parametrize(("words", "language"), [("a table", "python"), ("an HTML page", "html")])
async def test_artifact_comes_in_two_versions_and_later_a_third(
    server: httpx.AsyncClient, words: str, language: str
) -> None:
    ask = UserTurn(text=words)

    first = await answer(server, "artifacts", ask)
    later = await answer(server, "artifacts", ask, native(first), UserTurn(text=f"more {words}"))

    (one,), (two,) = first.ext.artifacts, later.ext.artifacts
    assert (one["language"], len(one["versions"])) == (language, 2)
    assert (two["artifact_id"], two["op"]) == (one["artifact_id"], "updated")
    assert two["content"] != one["content"]


async def test_branch_has_a_name_and_its_figures(server: httpx.AsyncClient) -> None:
    found = await answer(server, "fork")

    assert found.ext.fork
    assert found.ext.fork["branch_name"] == "What if What about the river?"
    assert found.ext.meta["context_budget"]["inputBudget"] == 8192
    assert found.ext.usage
    assert set(found.ext.usage.raw) == {"chat.completion.chunk", "x_chat.metadata"}


async def test_log_probabilities_come_when_they_are_asked_for(server: httpx.AsyncClient) -> None:
    found = await answer(server, "analyst", logprobs=True)

    item = found.output[-1]
    assert isinstance(item, MessageItem)
    assert item.logprobs
    assert "".join(entry["token"] for entry in item.logprobs) == item.content


async def test_limit_is_kept(server: httpx.AsyncClient) -> None:
    found = await answer(server, "analyst", max_tokens=5)

    assert (found.ext.status, found.stats.total_output_tokens) == ("incomplete", 5)


# --- mockups ------------------------------------------------------------------------------------


async def file(server: httpx.AsyncClient, bundle_id: str, path: str) -> httpx.Response:
    return await server.get(f"/mockups/{bundle_id}/{path}")


async def test_files_of_a_mockup_can_be_fetched(server: httpx.AsyncClient) -> None:
    (bundle,) = (await answer(server, "mockup")).ext.mockups

    assert bundle["entry"] == "index.html"
    assert len(bundle["files"]) == 5
    for entry in bundle["files"]:
        response = await file(server, bundle["bundle_id"], entry["path"])
        assert response.headers["content-type"] == entry["contentType"]
        assert len(response.content) == entry["size"]


async def test_second_turn_changes_and_deletes_files(server: httpx.AsyncClient) -> None:
    first = await answer(server, "mockup")
    bundle_id = first.ext.mockups[0]["bundle_id"]
    before = await file(server, bundle_id, "index.html")

    second = await answer(server, "mockup", HELLO, native(first), UserTurn(text="Another."))

    (bundle,) = second.ext.mockups
    assert (bundle["bundle_id"], bundle["op"]) == (bundle_id, "updated")
    assert set(bundle["changed"]) == {"index.html", "js/board.js", "css/night.css"}
    assert bundle["deleted"] == ["docs/notes.md"]
    assert (await file(server, bundle_id, "index.html")).content != before.content
    assert (await file(server, bundle_id, "docs/notes.md")).status_code == 404
    assert (await file(server, bundle_id, "css/night.css")).status_code == 200


async def test_one_turn_can_hold_both_versions(server: httpx.AsyncClient) -> None:
    (bundle,) = (await answer(server, "mockup", UserTurn(text="with an update"))).ext.mockups

    assert [version["op"] for version in bundle["versions"]] == ["created", "updated"]


@pytest.mark.parametrize("path", ["../../models", "index.html/", "%2e%2e/key", "", "INDEX.HTML"])
async def test_no_other_path_is_served(server: httpx.AsyncClient, path: str) -> None:
    (bundle,) = (await answer(server, "mockup")).ext.mockups
    url = httpx.URL(str(server.base_url)).copy_with(
        raw_path=f"{BASE}/mockups/{bundle['bundle_id']}/{path}".encode()
    )

    response = await server.get(url)

    assert b"Mill Bridge" not in response.content
    assert response.status_code == 404 or "error" in response.json()


async def test_unknown_bundle_is_not_served(server: httpx.AsyncClient) -> None:
    assert (await file(server, "bndl_000000000000", "index.html")).status_code == 404


async def test_files_need_the_key_where_there_is_one() -> None:
    async with FakeUpstream(required_key="xero_demo_secret") as fake:
        url = f"{fake.url}{BASE}/mockups/bndl_000000000000/index.html"
        async with httpx.AsyncClient(trust_env=False) as client:
            without = await client.get(url)
            with_key = await client.get(url, headers=XEROTIER.headers("xero_demo_secret"))

    assert (without.status_code, with_key.status_code) == (401, 404)


def test_picture_of_the_mockup_is_a_png() -> None:
    media_type, data = files_of(1)["img/river.png"]

    assert media_type == "image/png"
    assert data.startswith(b"\x89PNG\r\n\x1a\n")


# --- questions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "number"), [("Plan it", 1), ("two, please", 2), ("with fields", 1)]
)
@pytest.mark.parametrize("style", ["tool_message", "user_message"])
async def test_answer_goes_on_when_all_its_questions_are_answered(
    server: httpx.AsyncClient, words: str, number: int, style: str
) -> None:
    ask = UserTurn(text=words)
    waiting = await answer(server, "question", ask)
    replies = tuple(
        Reply(ask_id=one["ask_id"], text=f"Reply {place}", fields={"people": "7"})
        for place, one in enumerate(waiting.ext.asks)
    )

    found = await answer(
        server, "question", ask, native(waiting, *replies), options={"resume_style": style}
    )

    assert len(waiting.ext.asks) == number
    assert (found.ext.status, found.ext.asks) == ("completed", [])
    text = result.plain_text(found)
    assert all(re.search(rf"\b{reply.text}\b", text) for reply in replies)
    assert "people: 7" in text


async def test_an_option_and_words_of_ones_own_are_both_told(server: httpx.AsyncClient) -> None:
    ask = UserTurn(text="Plan it")
    waiting = await answer(server, "question", ask)
    reply = Reply(ask_id=waiting.ext.asks[0]["ask_id"], selected=("left",), text="before noon")
    chosen = Reply(ask_id=waiting.ext.asks[0]["ask_id"], selected=("left",))

    found = await answer(server, "question", ask, native(waiting, reply))
    plain = await answer(server, "question", ask, native(waiting, chosen))

    assert "- left; before noon" in result.plain_text(found)
    assert "- left\n" in result.plain_text(plain)


async def test_declining_is_understood(server: httpx.AsyncClient) -> None:
    waiting = await answer(server, "question")
    reply = Reply(ask_id=waiting.ext.asks[0]["ask_id"], is_declined=True)

    found = await answer(server, "question", HELLO, native(waiting, reply))

    assert "rather not say" in result.plain_text(found)


async def test_words_after_an_open_question_are_taken_as_its_answer(
    server: httpx.AsyncClient,
) -> None:
    waiting = await answer(server, "question")

    found = await answer(server, "question", HELLO, native(waiting), UserTurn(text="From the mill"))

    assert found.ext.status == "completed"
    assert "> From the mill" in result.plain_text(found)


async def test_call_that_nobody_answered_is_refused(server: httpx.AsyncClient) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "t", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
    ]

    response = await server.post("/chat/completions", json={"model": "m", "messages": messages})

    assert response.status_code == 400
    assert response.json()["error"]["code"] == "invalid_request"


# --- the rest of the API --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [b"{", b"[]", b"{}", b'{"messages":[]}', b'{"messages":[{"role":"user"}],"model":""}'],
)
async def test_bad_request_is_refused_as_the_service_does(
    server: httpx.AsyncClient, content: bytes
) -> None:
    response = await server.post("/chat/completions", content=content)

    assert response.status_code == 400
    assert set(response.json()["error"]) == {"message", "type", "code", "param"}


async def test_models_are_listed_beside_the_endpoint(fake: FakeUpstream) -> None:
    async with upstreams.open_client(AddressPolicy(allows_private=True)) as client:
        models = await upstreams.list_models(
            client, base_url=fake.url + BASE, dialect=XEROTIER, key=""
        )

    assert [model.id for model in models] == list(XEROTIER_MODELS)
    assert fake.requests[-1].path == "/xerotier/proj_demo/v1/models"


@pytest.mark.parametrize(("word", "status"), [("hello", 200), ("error", 503), ("refuse", 200)])
async def test_answer_can_be_had_in_one_piece(
    server: httpx.AsyncClient, word: str, status: int
) -> None:
    prompt = Prompt(model="tributary/demo-fork", turns=(UserTurn(text=word),), stream=False)

    response = await post(server, prompt)

    assert response.status_code == status
    parser = XEROTIER.parser(model="m", options={})
    fold = result.Fold()
    fold.extend(parser.feed_body(response.content))
    result.finish(parser, fold)
    expected = {"hello": "completed", "error": "failed", "refuse": "incomplete"}[word]
    assert fold.result().ext.status == expected
