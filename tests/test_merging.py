"""Merging the runs of one answer into one result."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.events import (
    Alternative,
    Ending,
    ErrorInfo,
    Extension,
    FailureMetadata,
    InvalidToolCallItem,
    MessageItem,
    OutputItem,
    ProviderInfo,
    Result,
    Stats,
    Stop,
    ToolCallFailure,
    ToolCallItem,
    ToolCallSuccess,
    Usage,
)
from chat.result import fold, plain_text
from chat.result.merge import answered_head, merge, waiting_calls

WAITING = Ending(status="waiting", stop=Stop(reason="tool_use"))
DONE = Ending(status="completed", stop=Stop(reason="stop"))


def call(
    call_id: str | None, output: str | None = None, *, tool: str = "look", status: str = "pending"
) -> ToolCallItem:
    function = ProviderInfo(type="function")
    return ToolCallItem(
        tool=tool,
        arguments={},
        call_id=call_id,
        output=output,
        status=status,
        provider_info=function,
    )


def done(call_id: str | None, output: str, **members: str) -> ToolCallItem:
    return call(call_id, output, status="done", **members)


def said(text: str) -> MessageItem:
    return MessageItem(content=text)


def run(*output: OutputItem, ending: Ending = DONE, **members: object) -> Result:
    extension = {name: members.pop(name) for name in list(members) if name in EXTENSION}
    return Result(
        model_instance_id=str(members.get("model", "m")),
        output=list(output),
        stats=members.get("stats", Stats()),
        response_id=members.get("response_id"),
        ext=Extension(status=ending.status, stop=ending.stop, **extension),
    )


EXTENSION = Extension.__struct_fields__


def outputs(result: Result) -> list[str | None]:
    return [
        item.content if isinstance(item, MessageItem) else item.output for item in result.output
    ]


def test_single_run_is_its_own_result() -> None:
    only = run(said("Hello"), native={"role": "assistant"})

    assert merge([only]) is only


def test_merging_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        merge([])


def test_outcomes_stand_where_calls_were_made() -> None:
    first = run(said("One"), call("a"), call("b"), ending=WAITING)
    second = run(done("a", "A"), call("b", "no", status="failed"), said("Two"))

    merged = merge([first, second])

    assert outputs(merged) == ["One", "A", "no", "Two"]
    assert [item.status for item in merged.output[1:3]] == ["done", "failed"]
    assert merged.ext.status == "completed"
    assert plain_text(merged) == "One\n\nTwo"


def test_middle_runs_answer_and_make_calls() -> None:
    merged = merge(
        [
            run(call("a"), ending=WAITING),
            run(done("a", "A"), call("b"), ending=WAITING),
            run(done("b", "B"), said("Done")),
        ]
    )

    assert outputs(merged) == ["A", "B", "Done"]


def test_equal_call_ids_are_matched_in_order(subtests: pytest.Subtests) -> None:
    for call_id in ["same", None]:
        with subtests.test(call_id=call_id):
            first = run(call(call_id), call(call_id), ending=WAITING)
            second = run(done(call_id, "first"), done(call_id, "second"))

            assert outputs(merge([first, second])) == ["first", "second"]


def test_outcome_belongs_to_the_call_of_its_id_and_tool(subtests: pytest.Subtests) -> None:
    two = [call("a"), call("b")]
    tools = [call("a", tool="look"), call("a", tool="find")]
    unnamed = [call(None, tool="look"), call(None, tool="find")]
    cases = {
        "in another order": (two, [done("b", "B"), done("a", "A")], ["A", "B"]),
        "only of the second": (two, [done("b", "B")], [None, "B"]),
        "of an unknown id": (two, [done("c", "C")], [None, None]),
        "of the other tool": (tools, [done("a", "F", tool="find")], [None, "F"]),
        "of the other tool, without ids": (unnamed, [done(None, "F", tool="find")], [None, "F"]),
    }

    for name, (asked, answered, expected) in cases.items():
        with subtests.test(name):
            merged = merge([run(*asked, ending=WAITING), run(*answered)])

            assert outputs(merged) == expected


def test_server_side_calls_stay_in_place() -> None:
    searched = ToolCallItem(
        tool="search", arguments={}, output="found", provider_info=ProviderInfo(type="builtin")
    )
    paused = run(searched, ending=Ending(status="incomplete", stop=Stop(reason="pause")))

    merged = merge([paused, run(searched, said("So"))])

    assert answered_head(run(searched)) == []
    assert outputs(merged) == ["found", "found", "So"]


def test_call_across_a_pause_is_one_call() -> None:
    builtin = ProviderInfo(type="builtin")
    asked = ToolCallItem(
        tool="search", arguments={"q": 1}, call_id="s", status="pending", provider_info=builtin
    )
    found = ToolCallItem(
        tool="search", arguments={}, call_id="s", output="found", provider_info=builtin
    )
    pause = Ending(status="incomplete", stop=Stop(reason="pause"))

    merged = merge([run(said("One"), asked, ending=pause), run(found, said("Two"))])

    assert outputs(merged) == ["One", "found", "Two"]
    assert (merged.output[1].arguments, merged.output[1].status) == ({"q": 1}, "done")


def test_waiting_calls_exclude_questions_and_invalid_calls() -> None:
    broken = InvalidToolCallItem(
        reason="no", metadata=FailureMetadata(type="invalid_arguments", tool_name="look")
    )
    result = run(
        broken, call("a"), done("b", "B"), call("q"), asks=[{"ask_id": "1", "call_id": "q"}]
    )

    assert [(position, item.call_id) for position, item in waiting_calls(result)] == [(1, "a")]


def test_tokens_are_summed_and_unknown_stays_unknown() -> None:
    first = run(
        stats=Stats(input_tokens=10, total_output_tokens=20, tokens_per_second=10.0),
        usage=Usage(input_tokens=10, details={"input": {"cached": 1, "kind": "x"}}, raw={"a": 1}),
    )
    second = run(
        stats=Stats(input_tokens=30, total_output_tokens=20, tokens_per_second=40.0),
        usage=Usage(input_tokens=30, cost=0.5, details={"input": {"cached": 2}}, raw={"b": 2}),
    )

    merged = merge([first, second])

    assert (merged.stats.input_tokens, merged.stats.total_output_tokens) == (40, 40)
    assert merged.stats.reasoning_output_tokens is None
    assert merged.stats.tokens_per_second == 16.0
    assert merged.ext.usage == Usage(
        input_tokens=40,
        cost=0.5,
        details={"input": {"cached": 3, "kind": "x"}},
        raw=[{"a": 1}, {"b": 2}],
    )


def test_ending_and_error_come_from_the_last_run() -> None:
    first = run(error=ErrorInfo(message="earlier"), response_id="r1")
    failed = Ending(status="failed", stop=Stop(reason="error"))
    last = run(ending=failed, error=ErrorInfo(message="no"), response_id="r2", model="m2")

    merged = merge([first, last])

    assert (merged.ext.status, merged.ext.stop.reason) == ("failed", "error")
    assert merged.ext.error == ErrorInfo(message="no")
    assert (merged.response_id, merged.model_instance_id) == ("r2", "m2")
    assert merge([last, first]).ext.error == ErrorInfo(message="earlier")
    assert merge([last, run()]).ext.error is None


def test_extension_members_are_merged() -> None:
    first = run(
        artifacts=[{"artifact_id": "x", "title": "Old", "versions": [{"op": "created"}]}],
        mockups=[{"bundle_id": "b", "title": "Page"}],
        asks=[{"ask_id": "1"}],
        activity=[{"step": "one"}],
        meta={"model": "m", "tier": "1"},
        vendor=[{"event": "x"}],
        fork={"branch_id": "f"},
        alternatives=[Alternative(choice=1, output=[])],
        native={"role": "assistant"},
    )
    second = run(
        artifacts=[{"artifact_id": "x", "title": "New", "versions": [{"op": "updated"}]}],
        asks=[{"ask_id": "2"}],
        activity=[{"step": "two"}],
        meta={"tier": "2"},
        native={"role": "assistant"},
    )

    ext = merge([first, second]).ext

    assert ext.artifacts == [
        {"artifact_id": "x", "title": "New", "versions": [{"op": "created"}, {"op": "updated"}]}
    ]
    assert ext.mockups == [{"bundle_id": "b", "title": "Page"}]
    assert [entry["ask_id"] for entry in ext.asks] == ["1", "2"]
    assert [entry["step"] for entry in ext.activity] == ["one", "two"]
    assert ext.meta == {"model": "m", "tier": "2"}
    assert (ext.vendor, ext.fork) == ([{"event": "x"}], {"branch_id": "f"})
    assert [one.choice for one in ext.alternatives] == [1]
    assert ext.native is None


def test_merging_changes_no_run() -> None:
    results = [run(call("a"), ending=WAITING), run(done("a", "A"), said("Done"))]
    before = [msgspec.to_builtins(result) for result in results]

    merge(results)

    assert [msgspec.to_builtins(result) for result in results] == before


@st.composite
def answers(draw: st.DrawFn) -> tuple[list[Result], list[str]]:
    """Runs that each ask for calls, the next one beginning with their outcomes; and all texts and
    outcomes in the order in which a reader should have them. Ids repeat from run to run."""
    results: list[Result] = []
    expected: list[str] = []
    head: list[ToolCallItem] = []
    for number in range(draw(st.integers(1, 4))):
        own = draw(st.lists(st.sampled_from(["text", "c0", "c1", "none"]), max_size=5))
        asked: list[OutputItem] = []
        following: list[ToolCallItem] = []
        for place, what in enumerate(own):
            told = f"{number}.{place}"
            expected.append(told)
            if what == "text":
                asked.append(said(told))
                continue
            call_id = None if what == "none" else what
            asked.append(call(call_id))
            following.append(done(call_id, told))
        results.append(run(*head, *asked, ending=WAITING if following else DONE))
        head = following
    if head:
        results.append(run(*head))
    return results, expected


@given(answers())
def test_any_runs_merge_in_order(made: tuple[list[Result], list[str]]) -> None:
    results, expected = made

    merged = merge(results)

    assert outputs(merged) == expected
    if len(results) > 1:
        assert waiting_calls(merged) == []


def test_log_beginning_with_outcomes_has_whole_calls(subtests: pytest.Subtests) -> None:
    for info in (None, ProviderInfo(type="function")):
        with subtests.test(provider=info):
            metadata = FailureMetadata(
                type="execution_failed", tool_name="look", arguments={"at": 2}, provider_info=info
            )
            first = {"tool": "look", "arguments": {"at": 1}, "provider_info": info, "call_id": "a"}
            second = {"call_id": "b", "arguments_raw": '{"at":2}'}

            result = fold(
                [
                    ToolCallSuccess(item=0, output="A", **first),
                    ToolCallFailure(item=1, reason="no", metadata=metadata, **second),
                ]
            )

            failed = {"tool": "look", "arguments": {"at": 2}, "provider_info": info, **second}
            assert answered_head(result) == [
                ToolCallItem(output="A", **first),
                ToolCallItem(output="no", status="failed", **failed),
            ]
