"""Activity of a server: its steps, plans with parts, and research."""

import pytest

from chat import events
from chat.events import Event
from tests.rendering.shown import page_of, text_of
from tests.rendering.stories import answer_of, end, message


def step(name: str, phase: str, **more: object) -> events.ActivityStep:
    return events.ActivityStep(family="deep_think", step=name, phase=phase, **more)  # type: ignore[arg-type]


def researched(name: str) -> events.ActivityStep:
    return events.ActivityStep(
        family="research", step=name, phase="done", label=f"The {name}", ref=name
    )


def lines_of(*story: Event) -> list[str]:
    return [line.words() for line in page_of(*story).find_all("li")]


def states_of(*story: Event) -> list[str]:
    return [line.split(":")[0] for line in lines_of(*story)]


def summary_of(*story: Event) -> str:
    return page_of(*story).find_all("summary")[0].words()


def test_step_is_updated_in_place() -> None:
    name = {"family": "research", "step": "search"}

    states = states_of(
        events.ActivityStep(**name, phase="start", label="One"),
        events.ActivityStep(**name, phase="done"),
        events.ActivityStep(**name, phase="start", label="Two"),
    )

    assert states == ["Done", "Started"]


def test_note_is_a_line_of_its_own() -> None:
    states = states_of(step("a", "start", ref="1"), step("again", "note", ref="1"))

    assert states == ["Started", "Note"]


def test_all_steps_of_a_run_are_one_list() -> None:
    story = [step("a", "note"), *message("between"), step("b", "note")]

    assert len(page_of(*story).find_all("ol")) == 1
    assert "2 steps" in summary_of(*story)


def test_steps_are_open_until_the_text_begins() -> None:
    def is_open(*story: Event) -> bool:
        return "open" in page_of(*story).find_all("details")[0].attributes

    steps = (step("a", "start", label="Digging"), step("b", "start"))
    assert is_open(*steps)
    assert not is_open(*steps, *message("So it is."))
    assert not is_open(*steps, end("stopped"))


def test_single_step_is_one_line() -> None:
    assert lines_of(researched("tool_call"), end()) == ["Done: The tool_call"]
    assert page_of(researched("tool_call"), end()).find_all("summary") == []
    assert "2 steps" in summary_of(researched("tool_call"), researched("reading"), end())


@pytest.mark.parametrize(
    "told", [{"status": 404, "summary": "Gone"}, {"summary": "The page is gone (404)"}]
)
def test_page_that_could_not_be_read_has_failed(told: dict[str, object]) -> None:
    read = events.ActivityStep(
        family="research",
        step="reading",
        phase="done",
        label="Reading: https://example.org/a",
        detail={"url": "https://example.org/a", "metadata": told},
    )

    (line,) = lines_of(read, end())

    assert line.startswith("Failed: Couldn’t read: example.org")


def test_calculation_is_read_as_one_line() -> None:
    calculated = events.ActivityStep(
        family="research",
        step="calculating",
        phase="done",
        label="Calculating: 2.31 - 1.94 · 0.37",
        detail={"arguments": {"expression": "2.31 - 1.94"}, "metadata": {"summary": "0.37"}},
    )

    assert lines_of(calculated, end()) == ["Done: 2.31 − 1.94 = 0.37"]


def test_bookkeeping_is_left_to_the_details() -> None:
    kept = step("deepening_round_completed", "done", label="Round finished")

    assert "Round finished" not in text_of(step("a", "note"), kept, end())


def test_only_searches_are_called_research() -> None:
    tool, mockup = researched("tool_call"), researched("creating_mockup")

    assert "Research 3 steps" in text_of(tool, mockup, researched("reading"), end())
    assert "Activity 2 steps" in text_of(tool, mockup, end())
    assert "Research" not in text_of(tool, mockup, end())


def test_step_of_a_tool_call_is_not_shown_twice() -> None:
    call = events.ToolCallStart(item=0, tool="web_search", call_id="ws_1", executes="upstream")
    started, done, other = (
        events.ActivityStep(family="web_search", step="search", phase=phase, label="Look", ref=ref)
        for phase, ref in (("start", "ws_1"), ("done", "ws_1"), ("done", "ws_2"))
    )

    assert "Look" not in text_of(call, started, done)
    assert text_of(call, started, done, other).count("Look") == 1


# --- plans ------------------------------------------------------------------------------------


def test_plan_counts_its_finished_parts() -> None:
    story = [
        step("plan_created", "done", label="Plan", detail={"total_subtasks": 3}),
        step("subtask_started", "start", ref="index:1", label="Part 1 of 3: springs"),
        step(
            "subtask_completed",
            "done",
            ref="index:1",
            detail={"input_tokens": 1200, "output_tokens": 34},
        ),
        step("subtask_started", "start", ref="index:2", label="Part 2 of 3: mouths"),
    ]

    assert "1 of 3 parts" in summary_of(*story)
    assert "Part 1 of 3: springs 1,234 tokens" in text_of(*story)
    assert "Done: Part 1 of 3" in text_of(*story)


def test_part_of_a_plan_stays_one_line() -> None:
    def part(name: str, phase: str, **detail: object) -> events.ActivityStep:
        ref = None if phase == "note" else "index:1"
        return step(name, phase, label=f"{name} 2", ref=ref, detail={"subtask_index": 1, **detail})

    planned = part("subtask_planned", "note")
    started = part("subtask", "start")
    retried = part("subtask_retried", "note", attempt=3)
    done = part("subtask", "done")

    assert lines_of(planned) == ["Planned: subtask_planned 2"]
    assert lines_of(planned, started) == ["Started: subtask 2"]
    assert lines_of(planned, started, retried) == ["Started: subtask 2 3 attempts"]
    assert lines_of(planned, started, retried, done) == ["Done: subtask 2 3 attempts 0.3 s"]


@pytest.mark.parametrize("total", [0, -1, True, "7", 10**9, 2.5])
def test_invalid_length_of_a_plan_is_ignored(total: object) -> None:
    plan = step("plan_created", "done", detail={"total_subtasks": total})

    assert "parts" not in summary_of(plan, step("a", "note"))


# --- details of a step -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("detail", "is_linked"),
    [
        ({"arguments": {"url": "https://example.org/a"}}, True),
        ({"url": "http://example.org/a"}, True),
        ({"url": "javascript:alert(1)"}, False),
        ({"url": 7, "arguments": "https://example.org"}, False),
    ],
)
def test_step_links_to_a_safe_url(detail: dict[str, object], is_linked: bool) -> None:
    page = page_of(step("reading", "start", label="Reading", detail=detail))

    assert bool(page.find_all("a")) is is_linked


def test_details_of_a_step_are_in_a_fold() -> None:
    text = text_of(step("structured_synthesis", "done", label="Ready", detail={"finding": "wet"}))

    assert '"finding"' in text


def test_details_do_not_repeat_the_line_of_the_step() -> None:
    said = "The weir was wet."
    claim = step("claim_emitted", "note", label=said, detail={"claim": said})
    brief = step("context_brief_created", "done", label="Ready", detail={"brief": said})

    html = answer_of(brief).snapshot()
    assert html.index("step-more") < html.index('class="tree') < html.index(said)
    assert "step-more" not in answer_of(claim).snapshot()
