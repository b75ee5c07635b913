"""Xerotier as the demo speaks it, read with the project's own dialect."""

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import product

import httpx
import pytest
import pytest_asyncio

from chat import dialects, result
from chat.demo.apis.xerotier import SERVER, XerotierEncoder, files_of
from chat.demo.fake import FakeUpstream
from chat.demo.requests import DemoRequest
from chat.demo.scenes import Text, Wait, choose
from chat.dialects.base import Reply, Turn
from chat.events import JsonObject, MessageItem, Result
from chat.upstreams import client as upstreams
from chat.upstreams.addresses import AddressPolicy
from tests.demo.answers import BASES, answer_to, connect, make_prompt, native

XEROTIER = dialects.get("xerotier")
BASE = BASES[XEROTIER.name]
QUESTION = "What about the river?"


@pytest_asyncio.fixture
async def api(fake: FakeUpstream) -> AsyncIterator[httpx.AsyncClient]:
    async with connect(fake, XEROTIER.name) as client:
        yield client


async def answer(
    fake: FakeUpstream,
    scene: str,
    *turns: Turn | str,
    options: JsonObject | None = None,
    **chosen: object,
) -> Result:
    prompt = make_prompt(
        *(turns or (QUESTION,)),
        model=f"tributary/demo-{scene}",
        options=options or {},
        parameters=chosen,
    )
    return await answer_to(fake, XEROTIER.name, prompt)


async def post(api: httpx.AsyncClient, *turns: str, **members: object) -> httpx.Response:
    request = XEROTIER.request(make_prompt(*turns, **members))
    return await api.post(request.path, content=request.body)


def phases(found: Result) -> set[str]:
    return {step["phase"] for step in found.ext.activity}


# --- the scenes -------------------------------------------------------------------------------


async def test_scenes_have_their_ending(fake: FakeUpstream, subtests: pytest.Subtests) -> None:
    for scene, status in [
        *(("research", "completed"), ("deep-think", "completed"), ("analyst", "completed")),
        *(("artifacts", "completed"), ("mockup", "completed"), ("question", "waiting")),
        *(("fork", "completed"), ("anything-else", "completed")),
    ]:
        with subtests.test(scene):
            found = await answer(fake, scene)

            assert found.ext.status == status
            assert found.ext.vendor == []
            assert found.ext.meta.get("unknown_members") is None
            assert phases(found) <= {"done", "note"}
            assert found.stats.total_output_tokens


ENDINGS = [
    ("refuse", "incomplete", "refusal", None),
    ("error", "failed", "error", "timeout"),
    ("preempted", "failed", "error", "preempted"),
    ("cut", "cut", "cut", None),
]


async def test_words_choose_the_ending(fake: FakeUpstream, subtests: pytest.Subtests) -> None:
    scenes = ("research", "mockup", "question", "anything-else")
    for scene, (word, status, reason, code) in product(scenes, ENDINGS):
        with subtests.test(scene=scene, word=word):
            found = await answer(fake, scene, f"Please {word} now")

            assert (found.ext.status, found.ext.stop.reason) == (status, reason)
            assert (found.ext.error.code if found.ext.error else None) == code


async def test_silence_has_heartbeats(api: httpx.AsyncClient) -> None:
    response = await post(api, "slow", model="tributary/demo-analyst")

    assert response.content.count(b": heartbeat\n\n") == 2


def _models() -> tuple[str, ...]:
    return tuple(model.id for model in SERVER.models)


def test_scenes_last_3_to_45_seconds(subtests: pytest.Subtests) -> None:
    for model in _models():
        with subtests.test(model):
            asked = DemoRequest(
                dialect=XEROTIER.name, model=model, text="two", body={}, runs_tools=True
            )
            steps = choose(asked).steps
            waiting = sum(step.seconds for step in steps if isinstance(step, Wait))
            writing = sum(len(step.text) / 4.5 for step in steps if isinstance(step, Text))

            assert 3 <= waiting + writing / XerotierEncoder.tokens_per_second <= 45


async def test_research_shows_pages_with_durations(fake: FakeUpstream) -> None:
    found = await answer(fake, "research")

    pages = [step["detail"] for step in found.ext.activity if step["step"] == "reading"]
    assert len(pages) == 3
    assert all(page["url"].startswith("https://") for page in pages)
    assert all(page["metadata"]["duration_ms"] > 0 for page in pages)
    assert pages[0]["url"] in result.plain_text(found)


async def test_deep_think_completes_every_subtask(fake: FakeUpstream) -> None:
    found = await answer(fake, "deep-think")

    parts = [step for step in found.ext.activity if step["step"] == "subtask"]
    (plan,) = [step for step in found.ext.activity if step["step"] == "planning"]
    assert len(parts) == plan["detail"]["total_subtasks"] == 4
    assert all(part["phase"] == "done" and part["detail"]["input_tokens"] for part in parts)
    assert [part["label"].split(":")[0] for part in parts] == [
        f"Part {n} of 4" for n in (1, 2, 3, 4)
    ]


async def test_artifact_gets_a_third_version_later(
    fake: FakeUpstream, subtests: pytest.Subtests
) -> None:
    for words, language in [("a table", "python"), ("an HTML page", "html")]:
        with subtests.test(words):
            first = await answer(fake, "artifacts", words)
            later = await answer(fake, "artifacts", words, native(first), f"more {words}")

            (one,), (two,) = first.ext.artifacts, later.ext.artifacts
            assert (one["language"], len(one["versions"])) == (language, 2)
            assert (two["artifact_id"], two["op"]) == (one["artifact_id"], "updated")
            assert two["content"] != one["content"]


async def test_fork_has_a_name_and_usage(fake: FakeUpstream) -> None:
    found = await answer(fake, "fork")

    assert found.ext.fork
    assert found.ext.fork["branch_name"] == "What if What about the river?"
    assert found.ext.meta["context_budget"]["inputBudget"] == 8192
    assert found.ext.usage
    assert set(found.ext.usage.raw) == {"chat.completion.chunk", "x_chat.metadata"}


async def test_logprobs_on_request(fake: FakeUpstream) -> None:
    found = await answer(fake, "analyst", logprobs=True)

    item = found.output[-1]
    assert isinstance(item, MessageItem)
    assert item.logprobs
    assert "".join(entry["token"] for entry in item.logprobs) == item.content


async def test_token_limit_is_kept(fake: FakeUpstream) -> None:
    found = await answer(fake, "analyst", max_tokens=5)

    assert (found.ext.status, found.stats.total_output_tokens) == ("incomplete", 5)


# --- mockups ------------------------------------------------------------------------------------


async def file(api: httpx.AsyncClient, bundle_id: str, path: str) -> httpx.Response:
    return await api.get(f"/mockups/{bundle_id}/{path}")


async def test_mockup_files_can_be_fetched(fake: FakeUpstream, api: httpx.AsyncClient) -> None:
    (bundle,) = (await answer(fake, "mockup")).ext.mockups

    assert bundle["entry"] == "index.html"
    assert len(bundle["files"]) == 5
    for entry in bundle["files"]:
        response = await file(api, bundle["bundle_id"], entry["path"])
        assert response.headers["content-type"] == entry["contentType"]
        assert len(response.content) == entry["size"]


async def test_second_turn_changes_and_deletes_files(
    fake: FakeUpstream, api: httpx.AsyncClient
) -> None:
    first = await answer(fake, "mockup")
    bundle_id = first.ext.mockups[0]["bundle_id"]
    before = await file(api, bundle_id, "index.html")

    second = await answer(fake, "mockup", QUESTION, native(first), "Another.")

    (bundle,) = second.ext.mockups
    assert (bundle["bundle_id"], bundle["op"]) == (bundle_id, "updated")
    assert set(bundle["changed"]) == {"index.html", "js/board.js", "css/dark.css"}
    assert bundle["deleted"] == ["docs/notes.md"]
    assert (await file(api, bundle_id, "index.html")).content != before.content
    assert (await file(api, bundle_id, "docs/notes.md")).status_code == 404
    assert (await file(api, bundle_id, "css/dark.css")).status_code == 200


async def test_one_turn_can_have_both_versions(fake: FakeUpstream) -> None:
    (bundle,) = (await answer(fake, "mockup", "with an update")).ext.mockups

    assert [version["op"] for version in bundle["versions"]] == ["created", "updated"]


async def test_other_paths_are_not_served(
    fake: FakeUpstream, api: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    (bundle,) = (await answer(fake, "mockup")).ext.mockups
    folder = f"{BASE}/mockups/{bundle['bundle_id']}"
    for path in ("../../models", "index.html/", "%2e%2e/key", "", "INDEX.HTML"):
        with subtests.test(path):
            url = api.base_url.copy_with(raw_path=f"{folder}/{path}".encode())

            response = await api.get(url)

            assert b"Team board" not in response.content
            assert response.status_code == 404 or "error" in response.json()


async def test_unknown_bundle_is_not_served(api: httpx.AsyncClient) -> None:
    assert (await file(api, "bndl_000000000000", "index.html")).status_code == 404


async def test_files_need_the_key() -> None:
    headers = XEROTIER.headers("xero_demo_secret")
    async with (
        FakeUpstream(required_key="xero_demo_secret") as fake,
        connect(fake, XEROTIER.name) as api,
        connect(fake, XEROTIER.name, headers=headers) as api_with_key,
    ):
        without = await file(api, "bndl_000000000000", "index.html")
        with_key = await file(api_with_key, "bndl_000000000000", "index.html")

    assert (without.status_code, with_key.status_code) == (401, 404)


def test_mockup_image_is_a_png() -> None:
    media_type, data = files_of(1)["img/team.png"]

    assert media_type == "image/png"
    assert data.startswith(b"\x89PNG\r\n\x1a\n")


# --- questions -----------------------------------------------------------------------------------


async def test_replies_continue_the_answer(fake: FakeUpstream, subtests: pytest.Subtests) -> None:
    questions = [("Plan it", 1), ("two, please", 2), ("with fields", 1)]
    for (words, number), style in product(questions, ("tool_message", "user_message")):
        with subtests.test(words, style=style):
            waiting = await answer(fake, "question", words)
            replies = tuple(
                Reply(ask_id=ask["ask_id"], text=f"Reply {place}", fields={"people": "7"})
                for place, ask in enumerate(waiting.ext.asks)
            )

            found = await answer(
                *(fake, "question", words, native(waiting, *replies)),
                options={"resume_style": style},
            )

            assert len(waiting.ext.asks) == number
            assert (found.ext.status, found.ext.asks) == ("completed", [])
            text = result.plain_text(found)
            assert all(re.search(rf"\b{reply.text}\b", text) for reply in replies)
            assert "people: 7" in text


async def test_option_and_text_are_both_used(fake: FakeUpstream) -> None:
    waiting = await answer(fake, "question", "Plan it")
    chosen = Reply(ask_id=waiting.ext.asks[0]["ask_id"], selected=("thursday",))
    explained = replace(chosen, text="before noon")

    found = await answer(fake, "question", "Plan it", native(waiting, explained))
    plain = await answer(fake, "question", "Plan it", native(waiting, chosen))

    assert "- thursday; before noon" in result.plain_text(found)
    assert "- thursday\n" in result.plain_text(plain)


async def test_declined_question_is_understood(fake: FakeUpstream) -> None:
    waiting = await answer(fake, "question")
    reply = Reply(ask_id=waiting.ext.asks[0]["ask_id"], is_declined=True)

    found = await answer(fake, "question", QUESTION, native(waiting, reply))

    assert "rather not say" in result.plain_text(found)


async def test_message_after_a_question_is_its_answer(fake: FakeUpstream) -> None:
    waiting = await answer(fake, "question")

    found = await answer(fake, "question", QUESTION, native(waiting), "From the mill")

    assert found.ext.status == "completed"
    assert "> From the mill" in result.plain_text(found)


async def test_unanswered_call_is_refused(api: httpx.AsyncClient) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "t", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
    ]

    response = await api.post("/chat/completions", json={"model": "m", "messages": messages})

    assert response.status_code == 400
    assert response.json()["error"]["code"] == "invalid_request"


# --- the rest of the API --------------------------------------------------------------------------


async def test_invalid_requests_are_refused(
    api: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    nameless = b'{"messages":[{"role":"user"}],"model":""}'
    for content in (b"{", b"[]", b"{}", b'{"messages":[]}', nameless):
        with subtests.test(content):
            response = await api.post("/chat/completions", content=content)

            assert response.status_code == 400
            assert set(response.json()["error"]) == {"message", "type", "code", "param"}


async def test_models_are_listed_beside_the_endpoint(fake: FakeUpstream) -> None:
    async with upstreams.open_client(AddressPolicy(allows_private=True)) as client:
        models = await upstreams.list_models(
            client, base_url=fake.url + BASE, dialect=XEROTIER, key=""
        )

    assert {model.id for model in models} == set(_models())
    assert fake.requests[-1].path == "/xerotier/proj_demo/v1/models"


async def test_answer_without_streaming(api: httpx.AsyncClient, subtests: pytest.Subtests) -> None:
    for word, status_code, status in [
        ("hello", 200, "completed"),
        ("error", 503, "failed"),
        ("refuse", 200, "incomplete"),
    ]:
        with subtests.test(word):
            response = await post(api, word, model="tributary/demo-fork", stream=False)

            parser, fold = XEROTIER.parser(model="m", options={}), result.Fold()
            fold.extend(parser.feed_body(response.content))
            result.finish(parser, fold)
            assert response.status_code == status_code
            assert fold.result().ext.status == status
