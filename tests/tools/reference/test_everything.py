"""Our product at ``@modelcontextprotocol/server-everything``: the tools as a runner reads them, and calls of each sort."""

from __future__ import annotations

import pytest

from chat.models import ToolRule
from chat.tools.inputs import MOST_ROUNDS, TOO_OFTEN
from tests.tools.reference.product import Product

pytestmark = [pytest.mark.slow, pytest.mark.third_party]

# The result of each tool: the arguments, words of the output, the structured content, and the media types of the files.
RESULTS = {
    "echo": ({"message": "ahoy"}, ["Echo: ahoy"], None, []),
    "get-sum": ({"a": 2, "b": 3}, ["The sum of 2 and 3 is 5"], None, []),
    "get-tiny-image": ({}, ["[File: image/png, 3.9 KB]", "MCP logo"], None, ["image/png"]),
    "get-structured-content": (
        {"location": "New York"},
        ['"temperature":33'],
        {"temperature": 33, "conditions": "Cloudy", "humidity": 82},
        [],
    ),
    "get-resource-links": (
        {"count": 2},
        [
            "Blob Resource 1 · demo://resource/dynamic/blob/1",
            "Text Resource 2 · demo://resource/dynamic/text/2",
        ],
        None,
        [],
    ),
    "get-resource-reference": (
        {"resourceType": "Text", "resourceId": 1},
        ["This is a plaintext resource"],
        None,
        ["text/plain"],
    ),
    "get-annotated-message": (
        {"messageType": "success", "includeImage": True},
        ["Operation completed successfully", "[File: image/png"],
        None,
        ["image/png"],
    ),
    "gzip-file-as-resource": (
        {"name": "notes.gz", "data": "data:text/plain,hello", "outputType": "resource"},
        ["[File: notes.gz, application/gzip"],
        None,
        ["application/gzip"],
    ),
}


async def test_runner_reads_its_tools(product: Product, everything: str) -> None:
    outcomes = await product.connect(everything)

    assert outcomes == {"connect": "ok", "sign_in": "ok", "tools": "ok", "unusable": "warning"}
    assert product.server.protocol == "2025-11-25"
    # The one that only runs as a task of that version.
    assert "simulate-research-query" in product.server.test[-1]["text"]
    tools = await product.tools()
    assert RESULTS.keys() <= tools.keys()
    # The server has these for clients that let people answer, and others for those with roots and sampling.
    assert {"trigger-elicitation-request", "trigger-url-elicitation"} <= tools.keys()
    assert not {"get-roots-list", "trigger-sampling-request"} & tools.keys()
    assert {tool.rule for tool in tools.values()} == {ToolRule.OFF}
    assert tools["echo"].is_read_only
    assert tools["echo"].is_idempotent
    assert not tools["gzip-file-as-resource"].is_read_only


async def test_result_of_each_sort_is_kept(
    product: Product, everything: str, subtests: pytest.Subtests
) -> None:
    await product.connect(everything)
    for name, (arguments, words, structured, files) in RESULTS.items():
        with subtests.test(tool=name):
            called = await product.call(name, arguments)

            assert called.item.status == "done"
            assert [each for each in words if each not in called.item.output] == []
            assert called.question.answer.get("structured") == structured
            assert [media_type for media_type, _ in called.files] == files
            receipt = called.item.execution
            assert (receipt.executor, receipt.server) == ("mcp", "Reference")
            assert (receipt.rule, receipt.attempt) == ("auto", 1)
            assert receipt.request_bytes > 0 < receipt.response_bytes
            assert "" < receipt.started_at <= receipt.ended_at


async def test_long_call_shows_its_progress(product: Product, everything: str) -> None:
    await product.connect(everything)

    called = await product.call("trigger-long-running-operation", {"duration": 4, "steps": 2})

    assert {"progress": 1, "total": 2} in called.progress
    assert "Steps: 2" in called.item.output


async def test_error_of_a_tool_is_its_result(product: Product, everything: str) -> None:
    await product.connect(everything)

    called = await product.call("get-sum", {"a": "two"})

    assert (called.item.status, called.row.status) == ("failed", "failed")
    assert "expected number, received string" in called.item.output


async def test_person_fills_in_its_form(product: Product, everything: str) -> None:
    product.values = {"name": "Alice", "check": "true"}
    await product.connect(everything)

    called = await product.call("trigger-elicitation-request", {})

    [asked] = called.item.execution.inputs
    assert (asked.status, asked.answered_by) == ("accepted", "Alice")
    assert "- Name: Alice\n- Agreed to terms: true" in called.item.output
    # The form has the defaults of the tool.
    for value in ('"integer": 42', '"titledSingleSelectEnum": "hero-1"', '"fish-1"'):
        assert value in called.item.output
    assert asked.content["titledSingleSelectEnum"] == "hero-1"


async def test_person_opens_its_address(product: Product, everything: str) -> None:
    await product.connect(everything)

    called = await product.call("trigger-url-elicitation", {"url": "https://harbor.test/pay"})

    [asked] = called.item.execution.inputs
    assert (asked.url, asked.status) == ("https://harbor.test/pay", "accepted")
    assert "User completed the URL elicitation flow" in called.item.output


async def test_server_that_remembers_by_session_refuses_up_to_the_limit(
    product: Product, everything: str
) -> None:
    """It knows in the same session only that the address was opened, and each request of a call is a session of its own."""
    await product.connect(everything)

    called = await product.call(
        "trigger-url-elicitation", {"url": "https://harbor.test/pay", "errorPath": True}
    )

    addresses = [each.url for each in called.item.execution.inputs]
    assert addresses == ["https://modelcontextprotocol.io"] * MOST_ROUNDS
    assert called.item.output == TOO_OFTEN
