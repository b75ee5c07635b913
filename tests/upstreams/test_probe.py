"""The connection test tells a person what is wrong and what to do next."""

import json
import socket

import pytest

from chat.dialects import DIALECTS
from chat.dialects.model_pages import next_page
from chat.upstreams.addresses import AddressPolicy
from chat.upstreams.client import MAX_LIST_PAGES, list_models, open_client
from chat.upstreams.failures import UpstreamError
from chat.upstreams.probe import QUESTION, TOOL_QUESTION, Step, Target, probe
from tests.upstreams.conftest import names
from tests.upstreams.hostile import UNFRAMED_HEAD, HostileServer, answer

KEY = "sk-canary-0123456789abcdef"
OPENAI = DIALECTS["openai_chat"]
LMSTUDIO = DIALECTS["lmstudio"]
MODELS = answer(b'{"object":"list","data":[{"id":"tiny"},{"id":"small"}]}')
NOT_FOUND = answer(b'{"error":{"message":"no such path"}}', status="404 Not Found")
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


WORKING = {"GET /v1/models": MODELS, "POST /v1/chat/completions": STREAM}


async def run(client, policy, url, *, dialect=OPENAI, **options) -> list[Step]:
    target = Target(base_url=url, dialect=dialect, **options)
    return [step async for step in probe(client, policy, target)]


def ended(steps: list[Step]) -> dict[str, Step]:
    return {step.name: step for step in steps if step.state != "running"}


def states(steps: list[Step]) -> list[str]:
    return [step.state for step in ended(steps).values()]


async def test_working_server_passes_every_step(client, policy, serve, certificates):
    async with serve(routing(WORKING)) as server:
        steps = await run(client, policy, f"{server.url}/v1", key=KEY, trust=certificates.trust)

    found = ended(steps)
    assert list(found) == NAMES
    assert states(steps) == ["ok"] * 6
    assert found["address"].detail == "127.0.0.1"
    assert "2 models" in found["models"].text
    assert found["models"].detail == "tiny, small"
    assert found["answer"].text == "tiny answered as a stream."
    assert "message.delta × 1" in found["answer"].detail
    assert "First token after" in found["answer"].detail
    asked = [json.loads(request.body) for request in server.requests[-2:]]
    assert [body["messages"][-1]["content"] for body in asked] == [QUESTION, TOOL_QUESTION]
    assert server.posts == 2


async def test_each_step_is_announced_before_it_ends(client, policy):
    async with HostileServer(routing(WORKING)) as server:
        steps = await run(client, policy, f"{server.url}/v1")

    assert [(step.name, step.state) for step in steps] == [
        pair for name in NAMES for pair in ((name, "running"), (name, "ok"))
    ]


async def test_asked_model_is_the_one_that_answers(client, policy):
    async with HostileServer(routing(WORKING)) as server:
        await run(client, policy, f"{server.url}/v1", model="small")

    assert json.loads(server.requests[-1].body)["model"] == "small"


async def test_server_without_a_key_says_so(client, policy):
    async with HostileServer(routing(WORKING)) as server:
        steps = await run(client, policy, f"{server.url}/v1")

    assert "no key" in ended(steps)["key"].text


async def test_wrong_port_is_said_to_be_refused(client, policy):
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        steps = await run(client, policy, f"http://localhost:{bound.getsockname()[1]}/v1")

    assert states(steps) == ["failed"] + ["skipped"] * 5
    assert "nothing listens at that port" in steps[1].text


async def test_unknown_host_is_said_to_be_misspelt(client, policy):
    steps = await run(client, policy, "http://nowhere.invalid/v1")

    assert states(steps)[0] == "failed"
    assert "could not be found" in steps[1].text


async def test_address_outside_the_policy_gets_the_fixed_sentence(transport, certificates):
    policy = AddressPolicy.parse("", lookup=names({"inner.test": ["10.0.0.5"]}))
    async with open_client(policy, certificates.trust, transport) as client:
        steps = await run(client, policy, "http://inner.test/v1")

    assert "may not connect" in steps[1].text
    assert "10.0.0.5" not in repr(steps)


@pytest.mark.parametrize("url", ["localhost:1234", "", "http://user:secret@host"])
async def test_unusable_address_is_explained(client, policy, url):
    steps = await run(client, policy, url)

    assert states(steps)[0] == "failed"
    assert "http://host:port/path" in steps[1].text


async def test_self_signed_certificate_is_recognised(client, policy, certificates):
    import ssl

    async with HostileServer(routing(WORKING), certificates.server) as server:
        steps = await run(client, policy, f"{server.url}/v1", trust=ssl.create_default_context())

    assert states(steps) == ["ok", "failed"] + ["skipped"] * 4
    assert "self-signed" in ended(steps)["tls"].text
    assert server.posts == 0


async def test_refused_key_says_what_to_do_and_never_shows_it(client, policy):
    refusal = answer(
        f'{{"error":{{"message":"Incorrect API key: {KEY}"}}}}'.encode(), status="401 Unauthorized"
    )
    async with HostileServer(routing({}, refusal)) as server:
        steps = await run(client, policy, f"{server.url}/v1", key=KEY)

    assert states(steps) == ["ok", "ok", "failed"] + ["skipped"] * 3
    assert "refuses the key" in ended(steps)["key"].text
    assert "canary" not in repr(steps)


async def test_missing_key_is_asked_for(client, policy):
    refusal = answer(b'{"error":{"message":"no key"}}', status="401 Unauthorized")
    async with HostileServer(routing({}, refusal)) as server:
        steps = await run(client, policy, f"{server.url}/v1")

    assert "wants a key" in ended(steps)["key"].text


async def test_key_that_only_the_answer_needs_is_refused_there(client, policy):
    refusal = answer(b'{"error":{"message":"no key"}}', status="401 Unauthorized")
    routes = {"GET /v1/models": MODELS, "POST /v1/chat/completions": refusal}
    async with HostileServer(routing(routes)) as server:
        steps = await run(client, policy, f"{server.url}/v1", key=KEY)

    assert "refuses the key" in ended(steps)["answer"].text


@pytest.mark.parametrize("default", [NOT_FOUND, PAGE], ids=["404", "web page"])
@pytest.mark.parametrize(
    ("entered", "meant"),
    [("", "/v1"), ("/", "/v1"), ("/v1/chat/completions", "/v1"), ("/v1/models", "/v1")],
)
async def test_wrong_path_is_answered_with_the_right_one(client, policy, default, entered, meant):
    async with HostileServer(routing(WORKING, default)) as server:
        steps = await run(client, policy, server.url + entered)

    found = ended(steps)["models"]
    assert found.state == "failed"
    assert f"below {server.url}{meant}." in found.text
    assert server.posts == 0


@pytest.mark.parametrize("entered", ["/v1", "/api/v1"])
async def test_native_server_entered_with_a_path_is_found_without_it(client, policy, entered):
    models = answer(b'{"models":[{"type":"llm","key":"tiny","display_name":"Tiny"}]}')
    # This server answers 200 for paths that it does not know.
    odd = answer(b'{"error":"Unexpected endpoint or method."}')
    async with HostileServer(routing({"GET /api/v1/models": models}, odd)) as server:
        steps = await run(client, policy, server.url + entered, dialect=LMSTUDIO)

    assert f"below {server.url}." in ended(steps)["models"].text


async def test_web_page_everywhere_is_said_to_be_one(client, policy):
    async with HostileServer(routing({}, PAGE)) as server:
        steps = await run(client, policy, f"{server.url}/v1")

    assert "web page" in ended(steps)["models"].text
    assert ended(steps)["answer"].state == "skipped"


async def test_empty_model_list_says_to_load_one(client, policy):
    async with HostileServer(routing({"GET /v1/models": answer(b'{"data":[]}')})) as server:
        steps = await run(client, policy, f"{server.url}/v1")

    assert "is empty" in ended(steps)["models"].text
    assert ended(steps)["answer"].state == "skipped"


async def test_failing_list_does_not_stop_a_typed_model(client, policy):
    async with HostileServer(routing({"POST /v1/chat/completions": STREAM})) as server:
        steps = await run(client, policy, f"{server.url}/v1", model="typed")

    assert states(steps) == ["ok", "ok", "skipped", "failed", "ok", "ok"]
    assert "type a model's name" in ended(steps)["models"].text


async def test_answer_in_one_piece_is_no_failure(client, policy):
    whole = answer(
        b'{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"Yes"},"finish_reason":"stop"}]}'
    )
    routes = {"GET /v1/models": MODELS, "POST /v1/chat/completions": whole}
    async with HostileServer(routing(routes)) as server:
        steps = await run(client, policy, f"{server.url}/v1")

    assert ended(steps)["answer"].state == "ok"
    assert "one piece" in ended(steps)["answer"].text


async def test_thinking_that_uses_up_the_tokens_is_an_answer(client, policy):
    thinking = openai_stream({"reasoning_content": "Hmm"}, finish="length")
    routes = {"GET /v1/models": MODELS, "POST /v1/chat/completions": thinking}
    async with HostileServer(routing(routes)) as server:
        steps = await run(client, policy, f"{server.url}/v1")

    assert ended(steps)["answer"].state == "ok"


async def test_error_in_the_stream_is_shown_without_the_key(client, policy):
    error = (
        UNFRAMED_HEAD + f'data: {{"error":{{"message":"model crashed for {KEY}"}}}}\n\n'.encode()
    )
    routes = {"GET /v1/models": MODELS, "POST /v1/chat/completions": error}
    async with HostileServer(routing(routes)) as server:
        steps = await run(client, policy, f"{server.url}/v1", key=KEY)

    found = ended(steps)["answer"]
    assert (found.state, "model crashed" in found.text) == ("failed", True)
    assert "canary" not in repr(steps)


async def test_stream_that_is_no_chat_points_to_the_dialect(client, policy):
    odd = UNFRAMED_HEAD + b'event: tick\ndata: {"now": 1}\n\ndata: [DONE]\n\n'
    routes = {"GET /v1/models": MODELS, "POST /v1/chat/completions": odd}
    async with HostileServer(routing(routes)) as server:
        steps = await run(client, policy, f"{server.url}/v1")

    assert ended(steps)["answer"].state == "failed"


async def test_unknown_model_is_named(client, policy):
    async with HostileServer(routing({"GET /v1/models": MODELS})) as server:
        steps = await run(client, policy, f"{server.url}/v1", model="misspelt")

    assert "'misspelt'" in ended(steps)["answer"].text


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


async def test_proxied_target_leaves_address_and_certificate_to_the_requests(certificates):
    policy = AddressPolicy.parse("")
    routes = {
        "GET http://api.example.com/v1/models": MODELS,
        "POST http://api.example.com/v1/chat/completions": STREAM,
    }
    async with (
        HostileServer(routing(routes)) as proxy,
        open_client(
            policy, certificates.trust, "stock", proxy=f"http://127.0.0.1:{proxy.port}"
        ) as client,
    ):
        steps = await run(client, policy, "http://api.example.com/v1", is_proxied=True)

    assert states(steps) == ["skipped", "ok", "ok", "ok", "ok", "ok"]


# --- the list of models by itself ------------------------------------------------------------


async def test_list_of_models_is_read(client, serve):
    async with serve(routing(WORKING)) as server:
        found = await list_models(client, base_url=f"{server.url}/v1", dialect=OPENAI, key=KEY)

    assert [model.id for model in found] == ["tiny", "small"]
    assert server.requests[0].header("authorization") == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (PAGE, "protocol"),
        (answer(b"not json", "text/plain"), "protocol"),
        (answer(b""), "protocol"),
        (answer(b'{"error":{"message":"invalid api key","code":"invalid_api_key"}}'), "auth"),
        (NOT_FOUND, "not_found"),
        (answer(b"{}", status="503 Busy"), "overloaded"),
    ],
)
async def test_list_that_is_none_says_why(client, serve, reply, kind):
    async with serve(routing({}, reply)) as server:
        with pytest.raises(UpstreamError) as caught:
            await list_models(client, base_url=server.url, dialect=OPENAI, key=KEY)

    assert caught.value.info.kind == kind


def page_of(ids: list[str], **members: object) -> bytes:
    return answer(json.dumps({"data": [{"id": name} for name in ids], **members}).encode())


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


@pytest.mark.parametrize(("query", "first", "second"), PAGES.values(), ids=PAGES)
async def test_list_in_pages_is_read_to_its_end(client, serve, query, first, second):
    routes = {"GET /v1/models": first, f"GET /v1/models?{query}": second}
    async with serve(routing(routes)) as server:
        found = await list_models(client, base_url=f"{server.url}/v1", dialect=OPENAI, key=KEY)

    assert [model.id for model in found] == ["a", "b", "c"]
    assert [request.header("authorization") for request in server.requests] == [f"Bearer {KEY}"] * 2


async def test_page_that_fails_ends_the_list_and_costs_nothing_else(client, serve):
    routes = {"GET /v1/models": page_of(["a"], has_more=True, last_id="a")}
    async with serve(routing(routes)) as server:
        found = await list_models(client, base_url=f"{server.url}/v1", dialect=OPENAI, key=KEY)

    assert [model.id for model in found] == ["a"]


async def test_list_that_goes_on_for_ever_is_read_for_a_few_pages(client, policy):
    async def behave(peer):
        await peer.request()
        name = f"m{len(peer.server.requests)}"
        await peer.send(page_of([name], has_more=True, last_id=name))
        await peer.finish()

    async with HostileServer(behave) as server:
        found = await list_models(client, base_url=server.url, dialect=OPENAI, key=KEY)

    assert len(found) == len(server.requests) == MAX_LIST_PAGES


async def test_list_that_repeats_itself_is_read_twice_at_most(client, policy):
    async with HostileServer(routing({}, page_of(["a"], has_more=True, last_id="a"))) as server:
        found = await list_models(client, base_url=server.url, dialect=OPENAI, key=KEY)

    assert [model.id for model in found] == ["a"]
    assert len(server.requests) == 2


@pytest.mark.parametrize("token", [7, [], "", "x" * 5000, None])
def test_page_whose_name_is_useless_is_the_last(token):
    body = json.dumps({"data": [], "has_more": True, "last_id": token, "nextCursor": token})

    assert next_page("/models", body.encode()) == ""
