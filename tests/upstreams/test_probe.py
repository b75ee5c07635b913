"""The connection test tells a person what is wrong and what to do next."""

import json
import socket
import ssl
from dataclasses import dataclass

import pytest

from chat.dialects import DIALECTS
from chat.dialects.base import next_page
from chat.upstreams.addresses import AddressPolicy
from chat.upstreams.client import MAX_LIST_PAGES, list_models, open_client
from chat.upstreams.failures import UpstreamError
from chat.upstreams.probe import ProbeStep, probe
from chat.upstreams.probe_requests import QUESTION, TOOL_QUESTION, ProbeTarget
from tests.support.hostile_server import UNFRAMED_HEAD, HostileServer, answer
from tests.upstreams.conftest import KEY, lookup_in, open_over

OPENAI = DIALECTS["openai_chat"]
LMSTUDIO = DIALECTS["lmstudio"]
MODELS = answer(b'{"object":"list","data":[{"id":"tiny"},{"id":"small"}]}')
NOT_FOUND = answer(b'{"error":{"message":"no such path"}}', status="404 Not Found")
NO_KEY = answer(b'{"error":{"message":"no key"}}', status="401 Unauthorized")
PAGE = answer(b"<!doctype html><title>Welcome</title>", "text/html")
NAMES = ["address", "tls", "key", "models", "answer", "tools"]


def openai_stream(*deltas: dict[str, str], finish: str = "stop") -> bytes:
    choices = [{"index": 0, "delta": delta} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    frames = [
        f"data: {json.dumps({'id': 'c', 'model': 'tiny', 'choices': [c]})}\n\n" for c in choices
    ]
    return UNFRAMED_HEAD + "".join([*frames, "data: [DONE]\n\n"]).encode()


STREAM = openai_stream({"role": "assistant", "content": ""}, {"content": "Yes"})


def routing(routes: dict[str, bytes], default: bytes = NOT_FOUND):
    async def behave(peer):
        request = await peer.request()
        await peer.send(routes.get(f"{request.method} {request.target}", default))
        await peer.finish()

    return behave


def with_answer(data: bytes) -> dict[str, bytes]:
    """The routes of a server that lists its models, and answers like this."""
    return {"GET /v1/models": MODELS, "POST /v1/chat/completions": data}


WORKING = with_answer(STREAM)


async def run(client, policy, url, *, dialect=OPENAI, **options) -> list[ProbeStep]:
    target = ProbeTarget(base_url=url, dialect=dialect, **options)
    return [step async for step in probe(client, policy, target)]


def ended(steps: list[ProbeStep]) -> dict[str, ProbeStep]:
    return {step.name: step for step in steps if step.state != "running"}


def states(steps: list[ProbeStep]) -> list[str]:
    return [step.state for step in ended(steps).values()]


@dataclass
class Outcome:
    """A server, and the steps of the test of its connection."""

    server: HostileServer
    steps: list[ProbeStep]

    def __getitem__(self, name: str) -> ProbeStep:
        return ended(self.steps)[name]

    @property
    def states(self) -> list[str]:
        return states(self.steps)


@pytest.fixture
def try_server(client, policy):
    """Tests the connection to a server with these routes."""

    async def start(routes, *, default=NOT_FOUND, path="/v1", **options) -> Outcome:
        async with HostileServer(routing(routes, default)) as server:
            steps = await run(client, policy, f"{server.url}{path}", **options)
        return Outcome(server, steps)

    return start


async def test_working_server_passes_every_step(client, policy, serve, certificates):
    async with serve(routing(WORKING)) as server:
        steps = await run(client, policy, f"{server.url}/v1", key=KEY, trust=certificates.trust)

    found = ended(steps)
    assert list(found) == NAMES
    encryption = "warning" if server.url.startswith("http://") else "ok"
    assert states(steps) == ["ok", encryption, "ok", "ok", "ok", "ok"]
    assert found["address"].detail == "127.0.0.1"
    assert "2 models" in found["models"].text
    assert found["models"].detail == "tiny, small"
    assert found["answer"].text == "tiny streamed its answer."
    assert "message.delta × 1" in found["answer"].detail
    assert "Time to first token" in found["answer"].detail
    bodies = [json.loads(request.body) for request in server.requests[-2:]]
    assert [body["messages"][-1]["content"] for body in bodies] == [QUESTION, TOOL_QUESTION]
    assert server.posts == 2


async def test_each_step_is_announced_before_it_ends(try_server):
    tested = await try_server(WORKING)

    outcomes = {**dict.fromkeys(NAMES, "ok"), "tls": "warning"}
    assert [(step.name, step.state) for step in tested.steps] == [
        pair for name, state in outcomes.items() for pair in ((name, "running"), (name, state))
    ]


async def test_chosen_model_is_asked(try_server):
    tested = await try_server(WORKING, model="small")

    assert json.loads(tested.server.requests[-1].body)["model"] == "small"


async def test_server_without_a_key_passes(try_server):
    tested = await try_server(WORKING)

    assert "without an API key" in tested["key"].text


async def test_wrong_port_is_explained(client, policy):
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        steps = await run(client, policy, f"http://localhost:{bound.getsockname()[1]}/v1")

    assert states(steps) == ["failed"] + ["skipped"] * 5
    assert "nothing is listening on that port" in steps[1].text


async def test_unknown_host_is_explained(client, policy):
    steps = await run(client, policy, "http://nowhere.invalid/v1")

    assert states(steps)[0] == "failed"
    assert "host name wasn’t found" in steps[1].text


async def test_forbidden_address_is_not_shown(transport, certificates):
    policy = AddressPolicy.parse("", lookup=lookup_in({"inner.test": ["10.0.0.5"]}))
    async with open_over(transport, policy, certificates.trust) as client:
        steps = await run(client, policy, "http://inner.test/v1")

    assert "aren’t allowed" in steps[1].text
    assert "10.0.0.5" not in repr(steps)


@pytest.mark.parametrize("url", ["localhost:1234", "", "http://user:secret@host"])
async def test_unusable_address_is_explained(client, policy, url):
    steps = await run(client, policy, url)

    assert states(steps)[0] == "failed"
    assert "http://host:port/path" in steps[1].text


async def test_self_signed_certificate_is_recognised(client, policy, certificates):
    async with HostileServer(routing(WORKING), certificates.server) as server:
        steps = await run(client, policy, f"{server.url}/v1", trust=ssl.create_default_context())

    assert states(steps) == ["ok", "failed"] + ["skipped"] * 4
    assert "self-signed" in ended(steps)["tls"].text
    assert server.posts == 0


async def test_refused_key_is_never_shown(try_server):
    refusal = answer(
        f'{{"error":{{"message":"Incorrect API key: {KEY}"}}}}'.encode(), status="401 Unauthorized"
    )

    tested = await try_server({}, default=refusal, key=KEY)

    assert tested.states == ["ok", "warning", "failed"] + ["skipped"] * 3
    assert "rejected the API key" in tested["key"].text
    assert "canary" not in repr(tested.steps)


async def test_missing_key_is_requested(try_server):
    tested = await try_server({}, default=NO_KEY)

    assert "requires an API key" in tested["key"].text


async def test_key_may_be_refused_at_the_answer_only(try_server):
    tested = await try_server(with_answer(NO_KEY), key=KEY)

    assert "rejected the API key" in tested["answer"].text


# (path that was entered, path that was meant)
WRONG_PATHS = [("", "/v1"), ("/", "/v1"), ("/v1/chat/completions", "/v1"), ("/v1/models", "/v1")]


@pytest.mark.parametrize("default", [NOT_FOUND, PAGE], ids=["404", "web page"])
async def test_right_path_is_suggested(try_server, default, subtests):
    for entered, meant in WRONG_PATHS:
        with subtests.test(msg=entered):
            tested = await try_server(WORKING, default=default, path=entered)

            assert tested["models"].state == "failed"
            assert tested["models"].correction == f"{tested.server.url}{meant}"
            assert tested.server.posts == 0


@pytest.mark.parametrize("entered", ["/v1", "/api/v1"])
async def test_native_server_is_found_without_its_path(try_server, entered):
    models = answer(b'{"models":[{"type":"llm","key":"tiny","display_name":"Tiny"}]}')
    # This server answers 200 for paths that it does not know.
    odd = answer(b'{"error":"Unexpected endpoint or method."}')

    tested = await try_server(
        {"GET /api/v1/models": models}, default=odd, path=entered, dialect=LMSTUDIO
    )

    assert tested["models"].correction == tested.server.url


async def test_web_page_is_recognised(try_server):
    tested = await try_server({}, default=PAGE)

    assert "web page" in tested["models"].text
    assert tested["answer"].state == "skipped"


async def test_empty_model_list_is_explained(try_server):
    tested = await try_server({"GET /v1/models": answer(b'{"data":[]}')})

    assert "is empty" in tested["models"].text
    assert tested["answer"].state == "skipped"


async def test_failing_list_does_not_stop_a_custom_model(try_server):
    tested = await try_server({"POST /v1/chat/completions": STREAM}, model="typed")

    assert tested.states == ["ok", "warning", "skipped", "failed", "ok", "ok"]
    assert "add names under Additional models" in tested["models"].text


async def test_answer_in_one_piece_passes(try_server):
    whole = answer(
        b'{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"Yes"},"finish_reason":"stop"}]}'
    )

    tested = await try_server(with_answer(whole))

    assert tested["answer"].state == "ok"
    assert "one piece" in tested["answer"].text


async def test_reasoning_that_uses_up_the_tokens_passes(try_server):
    thinking = openai_stream({"reasoning_content": "Hmm"}, finish="length")

    tested = await try_server(with_answer(thinking))

    assert tested["answer"].state == "ok"


async def test_error_in_the_stream_is_shown_without_the_key(try_server):
    error = f'data: {{"error":{{"message":"model crashed for {KEY}"}}}}\n\n'.encode()

    tested = await try_server(with_answer(UNFRAMED_HEAD + error), key=KEY)

    assert tested["answer"].state == "failed"
    assert "model crashed" in tested["answer"].text
    assert "canary" not in repr(tested.steps)


async def test_stream_without_a_chat_fails(try_server):
    odd = UNFRAMED_HEAD + b'event: tick\ndata: {"now": 1}\n\ndata: [DONE]\n\n'

    tested = await try_server(with_answer(odd))

    assert tested["answer"].state == "failed"


async def test_unknown_model_is_named(try_server):
    tested = await try_server({"GET /v1/models": MODELS}, model="misspelt")

    assert "“misspelt”" in tested["answer"].text


async def test_endless_event_ends_the_test(client, policy):
    async def behave(peer):
        request = await peer.request()
        if request.method == "GET":
            await peer.send(MODELS)
            await peer.finish()
            return
        await peer.send(UNFRAMED_HEAD + b"data: ")
        while True:
            await peer.send(b"a" * 65536)

    async with HostileServer(behave) as server:
        steps = await run(client, policy, f"{server.url}/v1")

    assert "larger than" in ended(steps)["answer"].text


async def test_address_behind_a_proxy_is_not_checked(certificates):
    policy = AddressPolicy.parse("")
    routes = {
        "GET http://api.example.com/v1/models": MODELS,
        "POST http://api.example.com/v1/chat/completions": STREAM,
    }
    async with (
        HostileServer(routing(routes)) as proxy,
        open_client(policy, certificates.trust, proxy=f"http://127.0.0.1:{proxy.port}") as client,
    ):
        steps = await run(client, policy, "http://api.example.com/v1", is_proxied=True)

    assert states(steps) == ["skipped", "warning", "ok", "ok", "ok", "ok"]


# --- the list of models by itself ------------------------------------------------------------


async def models_at(client, url: str) -> list[str]:
    found = await list_models(client, base_url=url, dialect=OPENAI, key=KEY)
    return [model.id for model in found]


async def test_list_of_models_is_read(client, serve):
    async with serve(routing(WORKING)) as server:
        models = await models_at(client, f"{server.url}/v1")

    assert models == ["tiny", "small"]
    assert server.requests[0].header("authorization") == f"Bearer {KEY}"


# (what the server sends, kind of the error)
NO_LISTS = [
    (PAGE, "protocol"),
    (answer(b"not json", "text/plain"), "protocol"),
    (answer(b""), "protocol"),
    (answer(b'{"error":{"message":"invalid api key","code":"invalid_api_key"}}'), "auth"),
    (NOT_FOUND, "not_found"),
    (answer(b"{}", status="503 Busy"), "overloaded"),
]


async def test_failed_list_is_explained(client, serve, subtests):
    for reply, kind in NO_LISTS:
        with subtests.test(msg=f"{kind}: {reply!r}"):
            async with serve(routing({}, reply)) as server:
                with pytest.raises(UpstreamError) as caught:
                    await models_at(client, server.url)

            assert caught.value.info.kind == kind


def page_of(ids: list[str], **members: object) -> bytes:
    return answer(json.dumps({"data": [{"id": name} for name in ids], **members}).encode())


# API: (query of the second page, first page, second page)
PAGES = {
    "Anthropic": (
        "after_id=b",
        page_of(["a", "b"], has_more=True, first_id="a", last_id="b"),
        page_of(["c"], has_more=False, last_id="c"),
    ),
    "Fireworks": (
        "pageToken=next+one%2F2",
        answer(b'{"models":[{"name":"a"},{"name":"b"}],"nextPageToken":"next one/2"}'),
        answer(b'{"models":[{"name":"c"}],"nextPageToken":""}'),
    ),
    "Friendli": (
        "cursor=2",
        answer(b'{"data":{"a":{"status":"RUNNING"},"b":{}},"nextCursor":"2"}'),
        answer(b'{"data":{"c":{}},"nextCursor":null}'),
    ),
}


async def test_all_pages_of_a_list_are_read(client, serve, subtests):
    for name, (query, first, second) in PAGES.items():
        routes = {"GET /v1/models": first, f"GET /v1/models?{query}": second}
        with subtests.test(msg=name):
            async with serve(routing(routes)) as server:
                models = await models_at(client, f"{server.url}/v1")

            assert models == ["a", "b", "c"]
            keys = [request.header("authorization") for request in server.requests]
            assert keys == [f"Bearer {KEY}"] * 2


async def test_failing_page_ends_the_list(client, serve):
    routes = {"GET /v1/models": page_of(["a"], has_more=True, last_id="a")}
    async with serve(routing(routes)) as server:
        models = await models_at(client, f"{server.url}/v1")

    assert models == ["a"]


async def test_endless_list_is_read_for_a_few_pages(client):
    async def behave(peer):
        await peer.request()
        name = f"m{len(peer.server.requests)}"
        await peer.send(page_of([name], has_more=True, last_id=name))
        await peer.finish()

    async with HostileServer(behave) as server:
        models = await models_at(client, server.url)

    assert len(models) == len(server.requests) == MAX_LIST_PAGES


async def test_repeating_list_is_read_twice(client):
    async with HostileServer(routing({}, page_of(["a"], has_more=True, last_id="a"))) as server:
        models = await models_at(client, server.url)

    assert models == ["a"]
    assert len(server.requests) == 2


def test_page_with_a_useless_token_is_the_last(subtests):
    for token in [7, [], "", "x" * 5000, None]:
        body = json.dumps({"data": [], "has_more": True, "last_id": token, "nextCursor": token})
        with subtests.test(msg=repr(token)[:20]):
            assert next_page("/models", body.encode()) == ""
