"""LM Studio's native API, as the demo speaks it."""

import re
from itertools import product

import httpx
import pytest

from tests.demo import texts
from tests.demo.conftest import Ask
from tests.demo.streams import (
    JsonObject,
    events_in,
    named_events_in,
    read_until_broken,
    text_of,
    types_of,
)

MODELS = ["tributary/demo-reasoner", "tributary/demo-writer", "tributary/demo-coder"]
WHOLE_SCENES = [
    "hello", "long", "code", "tool", "tool fail", "think", "table", "slow", "refuse", "load",
    "unicode",
]  # fmt: skip


async def events_for(ask: Ask, text: object, **members: object) -> list[JsonObject]:
    return events_in(await ask(text, **members))


def shape_of(events: list[JsonObject]) -> str:
    """The types in order, with runs of the same type written once."""
    types = types_of(events)
    return " ".join(now for now, before in zip(types, ["", *types], strict=False) if now != before)


GROUP = (
    r"(?:reasoning\.start reasoning\.delta reasoning\.end|message\.start message\.delta message\.end"
    r"|tool_call\.start tool_call\.arguments tool_call\.success|tool_call\.failure)"
)
ORDER = re.compile(
    r"chat\.start (?:model_load\.start model_load\.progress model_load\.end )?"
    r"prompt_processing\.start prompt_processing\.progress prompt_processing\.end "
    rf"(?:{GROUP} )+chat\.end"
)


async def test_scenes_keep_the_order_of_events(ask_native: Ask, subtests: pytest.Subtests) -> None:
    for scene, model in product(WHOLE_SCENES, MODELS):
        with subtests.test(scene=scene, model=model):
            events = await events_for(ask_native, scene, model=model)

            assert ORDER.fullmatch(shape_of(events))


async def test_result_equals_the_streamed_text(ask_native: Ask, subtests: pytest.Subtests) -> None:
    for scene in [*WHOLE_SCENES, "error"]:
        with subtests.test(scene):
            events = await events_for(ask_native, scene, model="tributary/demo-reasoner")

            output = events[-1]["result"]["output"]
            for kind in ("reasoning", "message"):
                assert text_of(events, kind) == "".join(
                    item["content"] for item in output if item["type"] == kind
                )
            calls = [item for item in output if item["type"] == "tool_call"]
            successes = [event for event in events if event["type"] == "tool_call.success"]
            assert calls == [{**event, "type": "tool_call"} for event in successes]


async def test_unstreamed_answer_is_the_same_result(
    ask_native: Ask, subtests: pytest.Subtests
) -> None:
    for scene in WHOLE_SCENES:
        with subtests.test(scene):
            await ask_native("hello")
            streamed = (await events_for(ask_native, scene))[-1]["result"]
            response = await ask_native(scene, stream=False)

            whole = response.json()
            assert response.headers["content-type"].startswith("application/json")
            assert whole.pop("response_id") != streamed.pop("response_id")
            assert whole == streamed


async def test_result_has_plausible_figures(ask_native: Ask) -> None:
    events = await events_for(ask_native, "think", model="tributary/demo-reasoner")

    result = events[-1]["result"]
    stats = result["stats"]
    assert re.fullmatch(r"resp_[0-9a-f]{48}", result["response_id"])
    assert result["model_instance_id"] == "tributary/demo-reasoner"
    assert 60 <= stats["tokens_per_second"] <= 90
    assert stats["total_output_tokens"] == sum(t.endswith(".delta") for t in types_of(events))
    assert stats["reasoning_output_tokens"] == types_of(events).count("reasoning.delta")
    assert 0.5 < stats["time_to_first_token_seconds"] < 1
    assert stats["model_load_time_seconds"] == 2


async def test_tokens_have_three_to_six_characters(ask_native: Ask) -> None:
    events = await events_for(ask_native, "long")

    deltas = [event["content"] for event in events if event["type"] == "message.delta"]
    assert all(3 <= len(delta) <= 6 for delta in deltas[:-1])


async def test_model_is_loaded_once(ask_native: Ask) -> None:
    first = await events_for(ask_native, "hello")
    second = await events_for(ask_native, "hello")

    progress = [event["progress"] for event in first if event["type"] == "model_load.progress"]
    assert progress == sorted(progress)
    assert progress[-1] == 1
    assert not any(name.startswith("model_load") for name in types_of(second))
    assert "model_load_time_seconds" not in second[-1]["result"]["stats"]


async def test_load_scene_loads_the_model_again(ask_native: Ask) -> None:
    await events_for(ask_native, "hello")
    again = await events_for(ask_native, "Please LOAD it")

    assert "model_load.end" in types_of(again)


async def test_slow_scene_processes_the_prompt_for_15_seconds(ask_native: Ask) -> None:
    events = await events_for(ask_native, "slow")

    progress = [e["progress"] for e in events if e["type"] == "prompt_processing.progress"]
    assert len(progress) == 60
    assert progress[-1] == 1
    assert events[-1]["result"]["stats"]["time_to_first_token_seconds"] > 15


async def test_model_list_shows_what_is_loaded(ask_native: Ask, client: httpx.AsyncClient) -> None:
    before = (await client.get("/api/v1/models")).json()["models"]
    await ask_native("hello")
    after = (await client.get("/api/v1/models")).json()["models"]

    assert [model["loaded_instances"] for model in before] == [[], [], [], []]
    loaded = {model["key"]: model["loaded_instances"] for model in after}
    assert loaded["tributary/demo-writer"][0]["id"] == "tributary/demo-writer"
    assert loaded["tributary/demo-reasoner"] == []


async def test_model_list_has_the_documented_members(client: httpx.AsyncClient) -> None:
    models = (await client.get("/api/v1/models")).json()["models"]

    assert [model["type"] for model in models] == ["llm", "llm", "llm", "embedding"]
    assert set(models[0]) == {
        "type", "publisher", "key", "display_name", "architecture", "quantization", "size_bytes",
        "params_string", "loaded_instances", "max_context_length", "format", "capabilities",
        "description", "variants", "selected_variant",
    }  # fmt: skip
    assert models[0]["capabilities"]["reasoning"]["default"] == "on"
    assert "reasoning" not in models[1]["capabilities"]


async def test_tool_call_has_arguments_and_a_cited_result(ask_native: Ask) -> None:
    events = await events_for(ask_native, "use a tool")

    start = next(event for event in events if event["type"] == "tool_call.start")
    success = next(event for event in events if event["type"] == "tool_call.success")
    assert start["provider_info"] == {"type": "ephemeral_mcp", "server_label": "office"}
    assert success["arguments"]["month"] == "2026-10"
    assert "1260.5" in success["output"]
    assert "1,260.50 €" in text_of(events)


async def test_failing_tool_is_the_second_call(ask_native: Ask) -> None:
    events = await events_for(ask_native, "a tool that fails")

    output = events[-1]["result"]["output"]
    kinds = [item["type"] for item in output]
    assert kinds == ["reasoning", "message", "tool_call", "invalid_tool_call", "message"]
    assert output[3]["metadata"] == {"type": "invalid_name", "tool_name": "send_reminder"}


async def test_error_in_mid_stream_keeps_the_text(ask_native: Ask) -> None:
    events = await events_for(ask_native, "error")

    assert types_of(events)[-3:] == ["message.delta", "error", "chat.end"]
    assert events[-2]["error"]["type"] == "internal_error"
    assert texts.BROKEN.startswith(text_of(events))


async def test_unstreamed_error_is_an_http_error(ask_native: Ask) -> None:
    response = await ask_native("error", stream=False)

    assert response.status_code == 500
    assert response.json()["error"]["code"] == "generation_failed"


async def test_cut_breaks_the_connection_in_the_text(client: httpx.AsyncClient) -> None:
    body = {"model": "tributary/demo-writer", "input": "a long cut", "stream": True}
    received = await read_until_broken(client, "/api/v1/chat", body)

    events = named_events_in(received)
    assert types_of(events)[-1] == "message.delta"
    assert texts.ESSAY.startswith(text_of(events))
    assert len(text_of(events)) > len(texts.ESSAY) // 2


async def test_unstreamed_cut_gives_no_answer(ask_native: Ask) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        await ask_native("cut", stream=False)


async def test_very_long_scene_has_20_000_words(ask_native: Ask) -> None:
    events = await events_for(ask_native, "a very long one")

    assert 20_000 <= len(text_of(events).split()) <= 21_500


async def test_unicode_scene_has_separators_and_a_split_pair(ask_native: Ask) -> None:
    response = await ask_native("unicode")

    events = named_events_in(response.content)
    assert "\u2028".encode() in response.content
    assert "\u0085".encode() in response.content
    assert re.search(rb'\\ud83d"}\n\nevent: message.delta\ndata: [^\n]*"\\ude80', response.content)
    assert "🚀" in text_of(events)
    assert "🚀" in events[-1]["result"]["output"][0]["content"]


QUESTIONS = [
    ("Tell me a LONG story", texts.ESSAY),
    ("some Code, please", texts.CODE),
    ("a longing for decoders and constables", texts.WELCOME),
    ("", texts.WELCOME),
]


async def test_whole_words_choose_the_scene(ask_native: Ask, subtests: pytest.Subtests) -> None:
    for text, scene in QUESTIONS:
        with subtests.test(text=text):
            events = await events_for(ask_native, text)

            assert text_of(events) == scene


async def test_welcome_names_every_scene(ask_native: Ask) -> None:
    text = text_of(await events_for(ask_native, "what can you do?"))

    words = set(re.findall(r"^- `(\w+)`", text, re.MULTILINE))
    assert words == {
        "long", "code", "tool", "think", "table", "unicode", "slow", "load", "refuse", "error",
        "cut",
    }  # fmt: skip


async def test_first_answer_repeats_no_question(ask_native: Ask) -> None:
    response = await ask_native("my secret is swordfish", system_prompt="be kind to otters")

    assert b"swordfish" not in response.content
    assert b"otters" not in response.content
    assert "a system prompt of 17 characters" in text_of(named_events_in(response.content))


async def test_later_turn_knows_its_number_and_last_question(ask_native: Ask) -> None:
    first = (await events_for(ask_native, "first?"))[-1]["result"]["response_id"]
    second = (await events_for(ask_native, "second?", previous_response_id=first))[-1]["result"]
    third = await events_for(ask_native, "third code", previous_response_id=second["response_id"])

    assert text_of(third).startswith(
        "*This is turn 3 of our conversation; before that you asked: “second?”*\n\n"
    )


async def test_branches_do_not_see_each_other(ask_native: Ask) -> None:
    root = (await events_for(ask_native, "root"))[-1]["result"]["response_id"]
    await events_for(ask_native, "left", previous_response_id=root)
    right = await events_for(ask_native, "right", previous_response_id=root)

    assert "turn 2" in text_of(right)
    assert "“root”" in text_of(right)


async def test_unstored_answer_has_no_id(ask_native: Ask) -> None:
    events = await events_for(ask_native, "hello", store=False)

    assert "response_id" not in events[-1]["result"]


async def test_max_output_tokens_ends_the_answer(ask_native: Ask) -> None:
    events = await events_for(ask_native, "long", max_output_tokens=7)

    assert types_of(events).count("message.delta") == 7
    assert types_of(events)[-2:] == ["message.end", "chat.end"]
    assert events[-1]["result"]["stats"]["total_output_tokens"] == 7


async def test_reasoning_can_be_disabled(ask_native: Ask) -> None:
    events = await events_for(ask_native, "think", model="tributary/demo-reasoner", reasoning="off")

    assert "reasoning.start" not in types_of(events)
    assert "message.start" in types_of(events)


async def test_last_text_item_is_the_question(ask_native: Ask) -> None:
    items = [
        {"type": "text", "content": "Earlier somebody asked for code."},
        {"type": "image", "data_url": "data:image/png;base64,iVBORw0KGgo="},
        {"type": "text", "content": "hello"},
    ]
    text = text_of(await events_for(ask_native, items))

    assert text.startswith(texts.WELCOME)
    assert "a picture (image/png)" in text
    assert "32 characters of text before it" in text


INVALID = [
    ({"model": None}, "missing_required_parameter", "model"),
    ({"model": "acme/unknown"}, "model_not_found", "model"),
    ({"model": "tributary/demo-embedding"}, "model_not_found", "model"),
    ({"model": ["x"]}, "model_not_found", "model"),
    ({"input": None}, "missing_required_parameter", "input"),
    ({"input": 7}, "invalid_union", "input"),
    ({"input": []}, "invalid_union", "input"),
    ({"input": [{"type": "message", "content": "x"}]}, "invalid_union", "input"),
    ({"input": [{"type": "text", "text": "x"}]}, "invalid_union", "input"),
    ({"input": [{"type": "image", "data_url": "http://x/y.png"}]}, "invalid_union", "input"),
    ({"input": ["x"]}, "invalid_union", "input"),
    ({"temperature": 1.5}, "out_of_range", "temperature"),
    ({"temperature": True}, "out_of_range", "temperature"),
    ({"max_output_tokens": 0}, "invalid_type", "max_output_tokens"),
    ({"stream": "yes"}, "invalid_type", "stream"),
    ({"system_prompt": 1}, "invalid_type", "system_prompt"),
    ({"reasoning": "high"}, "invalid_value", "reasoning"),
    ({"previous_response_id": "abc"}, "invalid_string", "previous_response_id"),
    (
        {"previous_response_id": "resp_" + "0" * 48},
        "previous_response_not_found",
        "previous_response_id",
    ),
]


async def test_invalid_requests_are_refused(ask_native: Ask, subtests: pytest.Subtests) -> None:
    for members, code, param in INVALID:
        with subtests.test(code=code, param=param):
            response = await ask_native("hello", **members)

            error = response.json()["error"]
            assert response.status_code == 400
            assert (error["type"], error["code"], error["param"]) == (
                "invalid_request",
                code,
                param,
            )
            assert error["message"]


async def test_invalid_json_is_refused(
    client: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    for body in [b"", b"{", b"\xff\xfe", b"[" * 100_000]:
        with subtests.test(body[:9]):
            response = await client.post("/api/v1/chat", content=body)

            assert response.status_code == 400
            assert response.json()["error"]["code"] == "json_parse_error"


async def test_unknown_path_is_a_200_with_an_error(client: httpx.AsyncClient) -> None:
    response = await client.get("/v1/v1/models")

    assert response.status_code == 200
    assert response.json() == {"error": "Unexpected endpoint or method. (GET /v1/v1/models)"}


SERVER = {
    "type": "ephemeral_mcp",
    "server_label": "gauges",
    "server_url": "https://gauges.example/mcp",
    "headers": {"Authorization": "Bearer test-gauge-token"},
}


async def test_integrations_are_called(ask_native: Ask) -> None:
    response = await ask_native("tool", integrations=[SERVER, "mcp/maps"])

    events = named_events_in(response.content)
    calls = [event for event in events if event["type"] == "tool_call.start"]
    assert [call["provider_info"]["server_label"] for call in calls] == ["gauges"]


async def test_integrations_are_named_without_headers(ask_native: Ask) -> None:
    response = await ask_native(
        "hello", integrations=[SERVER, {"type": "plugin", "id": "mcp/maps"}]
    )

    assert "tools of `gauges`, `mcp/maps`" in text_of(named_events_in(response.content))
    assert b"test-gauge-token" not in response.content


INVALID_INTEGRATIONS = [
    7,
    [7],
    [{"type": "plugin"}],
    [{"type": "remote"}],
    [{**SERVER, "server_url": "file:///x"}],
]


async def test_invalid_integrations_are_refused(ask_native: Ask, subtests: pytest.Subtests) -> None:
    for integrations in INVALID_INTEGRATIONS:
        with subtests.test(integrations=integrations):
            response = await ask_native("hello", integrations=integrations)

            assert response.status_code == 400
            assert response.json()["error"]["param"] == "integrations"
