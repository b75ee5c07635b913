"""What was streamed, compared with the result that the server sent at the end."""

import json
from pathlib import Path
from typing import Any

import pytest

from chat import events
from chat.events import Json
from chat.rendering.final_comparison import compare, receipt_of, responses_said, streamed
from tests.rendering.stories import answer_of, end, message

FIXTURES = Path(__file__).parents[1] / "fixtures"
# Recordings whose final result differs on purpose.
CONTRADICTING = {"t32_fireworks", "t32_interleaved", "t35_repair"}


def result_of(text: str, final: Json) -> events.Result:
    ending = end(upstream_result=final).result
    ending.output = [
        events.ReasoningItem(content="Hm."),
        events.ToolCallItem(tool="gauge", arguments={"a": 1, "b": 2}),
        events.MessageItem(content=text),
    ]
    return ending


def final_of(text: str, **arguments: int) -> dict[str, Any]:
    output = [
        {"type": "reasoning", "content": "Hm."},
        {"type": "tool_call", "tool": "gauge", "arguments": arguments or {"b": 2, "a": 1}},
        {"type": "message", "content": text},
    ]
    return {"output": output}


def test_same_text_and_calls_agree() -> None:
    receipt = receipt_of(result_of("By the spring.", final_of("By the spring.")))

    assert receipt is not None
    assert receipt.agrees
    assert receipt.compared == ("text", "thinking", "tool calls")


def test_different_text_is_shown_from_where_it_differs() -> None:
    receipt = receipt_of(result_of("By the spring.", final_of("By the mouth, far away.")))

    assert receipt is not None
    (difference,) = receipt.differences
    assert difference.about == "text"
    assert "from character 8 on" in difference.streamed
    assert "spring" in difference.streamed
    assert "mouth" in difference.final


def test_different_arguments_differ() -> None:
    receipt = receipt_of(result_of("x", final_of("x", a=7)))

    assert receipt is not None
    assert [difference.about for difference in receipt.differences] == ["tool calls"]


@pytest.mark.parametrize("shared", [0, 1, 2, 3, 7, 8])
def test_difference_names_its_first_letter(shared: int) -> None:
    text = "a" * shared
    receipt = receipt_of(result_of(f"{text}bcd", final_of(f"{text}xbcd")))

    assert receipt is not None
    assert f"from character {shared + 1} on:" in receipt.differences[0].streamed


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<think>Hm.</think>\n\nBy the spring.", "By the spring."),
        ("a <think>b</think> c <think></think> d", "a c d"),
        ("a <think>never closed", "a <think>never closed"),
        ("a</think> b", "a</think> b"),
        ("<think>" * 200_000, "<think>" * 200_000),
    ],
    ids=["one", "two", "open", "closed", "many"],
)
def test_thinking_in_the_final_text_is_left_out(text: str, shown: str) -> None:
    message = {"type": "message", "content": [{"type": "output_text", "text": text}]}
    final = responses_said({"output": [message]})

    assert final is not None
    assert final.text == shown


@pytest.mark.parametrize("final", [None, {}, {"output": []}, {"output": 7}, [], "x"])
def test_no_final_output_gives_no_receipt(final: Json) -> None:
    assert receipt_of(result_of("x", final)) is None


@pytest.mark.parametrize(
    ("final", "is_marked"), [("By the spring.", False), ("By the mouth.", True), (None, False)]
)
def test_answer_mentions_only_a_difference(final: str | None, is_marked: bool) -> None:
    output = [{"type": "message", "content": final}] if final else []
    ending = end(upstream_result={"output": output})
    ending.result.output = [events.MessageItem(content="By the spring.")]

    answer = answer_of(*message("By the spring."), ending)

    assert ("differs from the server’s final result" in answer.snapshot()) is is_marked


# --- recordings ------------------------------------------------------------------------------


def recordings(dialect: str) -> list[Path]:
    found = sorted((FIXTURES / dialect).glob("*.result.json"))
    assert found
    return found


def test_recordings_differ_only_where_the_dialect_says_so(subtests: pytest.Subtests) -> None:
    for file in recordings("lmstudio"):
        with subtests.test(msg=file.stem):
            result = events.decode_result(file.read_bytes())
            receipt = receipt_of(result)

            if receipt is not None:
                assert receipt.agrees is not bool(result.ext.meta.get("differences"))


def test_noted_differences_are_named() -> None:
    result = result_of("By the spring.", final_of("By the spring."))
    result.ext.meta["differences"] = [
        {"item": 1, "about": "output", "streamed": "low", "final": "high"},
        {"about": "model", "streamed": "weir", "final": None},
        {"about": "novelty", "streamed": {"a": 1}, "final": 2},
    ]

    receipt = receipt_of(result)

    assert receipt is not None
    assert not receipt.agrees
    assert [(each.about, each.streamed, each.final) for each in receipt.differences] == [
        ("result of a tool", "low", "high"),
        ("model", "weir", "none"),
        ("novelty", '{"a": 1}', "2"),
    ]


def response_at_the_end(file: Path) -> Json:
    source = file.with_name(file.name.replace(".result.json", ".sse"))
    lines = source.read_text(errors="replace").split("\n") if source.exists() else []
    ends = [line[6:] for line in lines if '"type":"response.completed"' in line]
    return json.loads(ends[-1])["response"] if ends else None


def test_responses_api_ends_with_the_streamed_text(subtests: pytest.Subtests) -> None:
    compared = set()
    for file in recordings("openai_responses"):
        final = responses_said(response_at_the_end(file))
        if final is None:
            continue
        name = file.name.partition(".")[0]
        compared.add(name)
        with subtests.test(msg=name):
            receipt = compare(streamed(events.decode_result(file.read_bytes()).output), final)

            assert receipt.compared == ("text",)
            assert receipt.agrees is (name not in CONTRADICTING)
    assert compared > CONTRADICTING
