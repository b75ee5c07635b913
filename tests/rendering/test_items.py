import re
from pathlib import Path

import pytest

from chat import events
from chat.events import EVENT_TYPES, Event, OutputItem
from chat.rendering import figures
from chat.rendering.anatomy import SHOWN_CHARACTERS
from chat.rendering.items import ITEM_KINDS
from chat.rendering.patches import HANDLERS, INVISIBLE, Answer
from chat.rendering.wording import EVENTS
from tests.rendering.dom import parse
from tests.rendering.stories import RICH, RUN, end, message, numbered, told

TEMPLATES = Path(__file__).parents[2] / "templates" / "chat" / "items"
STYLE = Path(__file__).parents[2] / "static" / "css" / "answer.css"


def shown(*story: Event) -> Answer:
    answer = Answer(RUN)
    for event in numbered(story):
        answer.apply(event)
    return answer


def text_of(answer: Answer) -> str:
    return " ".join(parse(answer.snapshot()).text().split())


def phase_of(*story: Event) -> str:
    return " ".join(parse(shown(*story).phase()).text().split())


# --- completeness ------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVENT_TYPES)
def test_every_event_type_has_a_renderer_or_a_reason(name: str) -> None:
    kind = EVENT_TYPES[name]

    assert kind in HANDLERS or INVISIBLE[kind]


@pytest.mark.parametrize("kind", OutputItem.__args__)
def test_every_item_kind_has_a_renderer(kind: type) -> None:
    assert str(kind.__struct_config__.tag) in ITEM_KINDS


def test_the_rich_run_has_every_event_type() -> None:
    assert {type(event) for event in RICH} == set(EVENT_TYPES.values())


class Novelty(events.EventBase, tag="novelty", kw_only=True):
    words: str = ""


def test_an_event_without_a_renderer_gets_the_generic_card() -> None:
    answer = shown(Novelty(words="never <seen>"))  # type: ignore[arg-type]

    assert "novelty" in text_of(answer)
    assert "never <seen>" in text_of(answer)


def test_what_no_table_knows_is_counted_and_not_shown() -> None:
    answer = shown(events.VendorRaw(dialect="x", text="odd"), events.VendorRaw(dialect="x"))

    assert answer.unknown_events == 2
    assert "odd" not in answer.snapshot()


def test_every_template_is_used() -> None:
    source = "".join(
        path.read_text() for path in (Path(__file__).parents[2] / "chat/rendering").glob("*.py")
    )

    assert [path.stem for path in TEMPLATES.glob("*.html") if f'"{path.stem}"' not in source] == []


@pytest.mark.parametrize("path", sorted(TEMPLATES.glob("*.html")), ids=lambda path: path.stem)
def test_templates_have_no_inline_code_and_no_reason_to_leave_a_patch(path: Path) -> None:
    source = path.read_text()

    assert not re.search(r"<script|<style|\son\w+=|\sstyle=|<head|</?hx-|\|\s*safe", source)


def test_the_style_sheet_knows_every_class() -> None:
    answer = Answer(RUN)
    classes: set[str] = set()
    for event in RICH:
        answer.apply(event)
        for html in (answer.snapshot(), answer.phase()):
            for element in parse(html).elements():
                classes |= set(element.attributes.get("class", "").split())

    style = STYLE.read_text()
    plain = {"word", "icon", "label", "item", "message", "artifact", "mockup", "media", "pair"}
    plain |= {"fold", "facts", "detail", "elapsed", "items", "copy-word"}
    # Shared by every page.
    plain |= {"quiet", "visually-hidden"}
    assert {one for one in classes - plain if f".{one}" not in style} == set()


# --- states ------------------------------------------------------------------------------


def test_state_follows_the_run() -> None:
    answer = Answer(RUN)

    states = [answer.state]
    for event in told("x"):
        answer.apply(event)
        states.append(answer.state)

    assert states[0] == "waiting"
    assert set(states[1:-1]) == {"live"}
    assert states[-1] == "completed"


def test_an_unnumbered_event_takes_the_next_place() -> None:
    answer = Answer(RUN)
    for event in message("text"):
        answer.apply(event)

    assert answer.seq == 3
    assert "text" in answer.snapshot()


def test_ids_begin_with_the_run() -> None:
    answer = shown(*RICH)

    ids = [e.attributes["id"] for e in parse(answer.snapshot()).elements() if "id" in e.attributes]
    assert ids
    assert all(id.startswith(f"r{RUN}-") for id in ids)


# --- the phase strip ------------------------------------------------------------------------

START = events.ChatStart(model_instance_id="m")
LOAD = events.ModelLoadProgress(model_instance_id="big", progress=0.654)


def test_waiting_has_a_word_before_the_first_event() -> None:
    assert "Waiting for the first byte" in Answer(RUN).phase()
    assert "Waiting for the first byte" in Answer(RUN).snapshot()


def test_progress_has_true_figures() -> None:
    assert "Loading the model big 65 %" in phase_of(START, LOAD)
    assert 'value="65"' in shown(START, LOAD).phase()


def test_progress_is_in_the_answer_only_while_nothing_else_is() -> None:
    assert "Loading the model" in text_of(shown(START, LOAD))
    assert "Loading the model" not in text_of(shown(START, LOAD, *message("hello")))


def test_a_phase_without_a_figure_has_no_bar() -> None:
    assert "<progress" not in shown(START, events.PromptProcessingStart()).phase()


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (events.PromptProcessingProgress(progress=0.5), "Reading the prompt 50 %"),
        (events.PromptProcessingProgress(progress=float("nan")), "Reading the prompt 0 %"),
        (events.PromptProcessingProgress(progress=7.0), "Reading the prompt 100 %"),
        (events.ReasoningStart(item=0), "Thinking"),
        (events.ToolCallStart(item=0, tool="grep"), "Preparing a tool call grep"),
        (events.ToolCallArguments(item=0, tool="grep", arguments={}), "Calling a tool grep"),
        (events.MessageStart(item=0), "Writing"),
        (events.AskQuestion(ask_id="a", question="?"), "Waiting for a person"),
        (events.ActivityStep(family="f", step="s", phase="start", label="Dig"), "Working Dig"),
        (events.MockupUpdate(op="calling", identifier="m"), "Building a mockup"),
    ],
)
def test_the_strip_names_the_phase(event: Event, words: str) -> None:
    assert phase_of(START, event).startswith(words)


def test_the_strip_is_empty_at_the_end() -> None:
    assert phase_of(START, end()) == ""


def test_running_time_changes_once_a_second() -> None:
    story = [events.ReasoningStart(item=0)]
    story += [events.ReasoningDelta(item=0, content="x") for _ in range(30)]
    answer = Answer(RUN)
    heads = 0
    for event in numbered(story, step_ms=100):
        seen = answer.seq
        answer.apply(event)
        heads += "-head" in answer.patches_since(seen) and seen > 0

    assert heads == 3


# --- reasoning ------------------------------------------------------------------------------


def test_reasoning_is_folded_and_says_how_long_it_thought() -> None:
    answer = shown(
        events.ReasoningStart(item=0),
        events.ReasoningDelta(item=0, content="Let me see."),
        events.ReasoningEnd(item=0),
    )

    fold = next(e for e in parse(answer.snapshot()).elements() if e.tag == "details")
    assert "open" not in fold.attributes
    assert "Thought for 0.3 s 3 words" in text_of(answer)


def test_live_reasoning_has_a_running_time() -> None:
    answer = shown(events.ReasoningStart(item=0), events.ReasoningDelta(item=0, content="Hm"))

    assert "Thinking" in text_of(answer)
    assert "data-elapsed-ms" in answer.snapshot()


@pytest.mark.parametrize(
    ("kind", "words"), [("summary", "summary"), ("hidden", "keeps this thinking to itself")]
)
def test_reasoning_that_is_not_whole_says_so(kind: str, words: str) -> None:
    answer = shown(events.ReasoningStart(item=0, kind=kind))  # type: ignore[arg-type]

    assert words in text_of(answer)


# --- tools ------------------------------------------------------------------------------------


def test_arguments_grow_as_they_come() -> None:
    answer = Answer(RUN)
    first, second, third = numbered(
        [
            events.ToolCallStart(item=0, tool="t"),
            events.ToolCallDelta(item=0, fragment='{"a'),
            events.ToolCallDelta(item=0, fragment='": 1}'),
        ]
    )
    for event in (first, second):
        answer.apply(event)
    answer.apply(third)

    patch = answer.patches_since(2)
    assert f'hx-target="#r{RUN}-i0-args-text" hx-swap="beforeend">": 1}}</' in patch


@pytest.mark.parametrize(
    ("event", "word"),
    [
        (events.ToolCallStart(item=0, tool="t"), "Preparing"),
        (events.ToolCallArguments(item=0, tool="t", arguments={}), "Called"),
        (events.ToolCallSuccess(item=0, tool="t", arguments={}, output="o"), "Done"),
        (
            events.ToolCallFailure(
                item=0,
                reason="no such tool",
                metadata=events.FailureMetadata(type="invalid_name", tool_name="t"),
            ),
            "Failed",
        ),
    ],
)
def test_a_tool_card_names_its_state(event: Event, word: str) -> None:
    assert word in text_of(shown(event))


def test_a_failed_call_gives_the_reason() -> None:
    metadata = events.FailureMetadata(type="execution_failed", tool_name="t")
    answer = shown(events.ToolCallFailure(item=0, reason="disk on fire", metadata=metadata))

    assert "The tool failed. disk on fire" in text_of(answer).replace(".d", ". d")


@pytest.mark.parametrize(
    ("status", "word"), [("waiting", "Waiting for a result"), ("stopped", "No result")]
)
def test_a_call_without_an_answer_says_so_at_the_end(status: str, word: str) -> None:
    answer = shown(events.ToolCallArguments(item=0, tool="t", arguments={}), end(status))

    assert word in text_of(answer)


def test_a_long_result_is_cut_and_says_by_how_much() -> None:
    output = "y" * (SHOWN_CHARACTERS + 5)
    answer = shown(events.ToolCallSuccess(item=0, tool="t", arguments={}, output=output))

    assert "The first 32,000 of 32,005 characters" in text_of(answer)


@pytest.mark.parametrize("output", ['{"a": [1', "[" * 30_000, "not json", ""])
def test_a_result_that_is_no_json_is_shown_as_it_is(output: str) -> None:
    answer = shown(events.ToolCallSuccess(item=0, tool="t", arguments={}, output=output))

    assert output in parse(answer.snapshot()).text()


def test_arguments_nested_beyond_reason_do_not_break_the_answer() -> None:
    nested: dict[str, object] = {}
    for _ in range(5000):
        nested = {"a": nested}

    answer = shown(events.ToolCallArguments(item=0, tool="t", arguments=nested))

    assert "nested too deeply" in text_of(answer)


# --- activity ---------------------------------------------------------------------------------


def test_a_step_is_updated_in_place_and_a_new_start_is_a_new_line() -> None:
    step = {"family": "research", "step": "search"}
    answer = shown(
        events.ActivityStep(**step, phase="start", label="One"),
        events.ActivityStep(**step, phase="done"),
        events.ActivityStep(**step, phase="start", label="Two"),
    )

    lines = [e.text() for e in parse(answer.snapshot()).elements() if e.tag == "li"]
    assert [line.split(":")[0].strip() for line in lines] == ["Done", "Started"]


def step(name: str, phase: str, **more: object) -> events.ActivityStep:
    return events.ActivityStep(family="deep_think", step=name, phase=phase, **more)  # type: ignore[arg-type]


def head_of(answer: Answer) -> str:
    heads = [e for e in parse(answer.snapshot()).elements() if e.tag == "summary"]
    return " ".join(heads[0].text().split())


def test_all_steps_of_a_run_are_one_list_whatever_stands_between() -> None:
    answer = shown(step("a", "note"), *message("between"), step("b", "note"))

    assert sum(e.tag == "ol" for e in parse(answer.snapshot()).elements()) == 1
    assert "2 steps" in head_of(answer)


def test_steps_are_open_until_the_text_begins() -> None:
    def is_open(answer: Answer) -> bool:
        return next(
            "open" in e.attributes
            for e in parse(answer.snapshot()).elements()
            if e.tag == "details"
        )

    assert is_open(shown(step("a", "start", label="Digging")))
    assert not is_open(shown(step("a", "start"), *message("So it is.")))
    assert not is_open(shown(step("a", "start"), end("stopped")))


def test_a_note_neither_begins_a_step_nor_ends_one() -> None:
    answer = shown(step("a", "start", ref="1"), step("again", "note", ref="1"))

    lines = [e.text() for e in parse(answer.snapshot()).elements() if e.tag == "li"]
    assert [line.split(":")[0].strip() for line in lines] == ["Started", "Note"]


def test_a_plan_says_how_many_of_its_parts_are_done() -> None:
    answer = shown(
        step("plan_created", "done", label="Plan", detail={"total_subtasks": 3}),
        step("subtask_started", "start", ref="index:1", label="Part 1 of 3: springs"),
        step(
            "subtask_completed",
            "done",
            ref="index:1",
            detail={"input_tokens": 1200, "output_tokens": 34},
        ),
        step("subtask_started", "start", ref="index:2", label="Part 2 of 3: mouths"),
    )

    assert "1 of 3 parts" in head_of(answer)
    assert "Part 1 of 3: springs 1,234 tokens" in text_of(answer)
    assert "Done: Part 1 of 3" in text_of(answer)


@pytest.mark.parametrize("total", [0, -1, True, "7", 10**9, 2.5])
def test_a_plan_of_no_sensible_length_has_none(total: object) -> None:
    answer = shown(step("plan_created", "done", detail={"total_subtasks": total}))

    assert "parts" not in head_of(answer)


@pytest.mark.parametrize(
    ("detail", "is_linked"),
    [
        ({"arguments": {"url": "https://example.org/a"}}, True),
        ({"url": "http://example.org/a"}, True),
        ({"url": "javascript:alert(1)"}, False),
        ({"url": 7, "arguments": "https://example.org"}, False),
    ],
)
def test_a_step_links_to_the_page_it_reads_if_that_is_safe(
    detail: dict[str, object], is_linked: bool
) -> None:
    answer = shown(step("reading", "start", label="Reading", detail=detail))

    assert any(e.tag == "a" for e in parse(answer.snapshot()).elements()) is is_linked


def test_a_step_that_brings_something_to_read_has_it_in_a_fold() -> None:
    answer = shown(step("structured_synthesis", "done", label="Ready", detail={"finding": "wet"}))

    assert '"finding"' in text_of(answer)


def test_a_result_of_a_call_that_this_run_did_not_make_was_given_by_a_person() -> None:
    given = events.ToolCallSuccess(item=0, tool="t", arguments={}, output="o")

    assert "tool given" in shown(given).snapshot()
    assert "tool given" not in shown(events.ToolCallStart(item=0, tool="t"), given).snapshot()


def test_a_mockup_names_its_files_with_type_and_size() -> None:
    answer = shown(
        events.MockupUpdate(
            op="created",
            bundle_id="b",
            title="Shop",
            entry="index.html",
            files=[{"path": "index.html", "contentType": "text/html", "size": 2048}, {"path": "x"}],
        ),
        events.MockupUpdate(op="updated", bundle_id="b", changed=["a.css"], deleted=["x"]),
    )

    assert "2 files" in text_of(answer)
    assert "index.html text/html 2.0 kB first page" in text_of(answer)


def test_thinking_without_words_counts_none() -> None:
    hidden = shown(events.ReasoningStart(item=0, kind="hidden"), events.ReasoningEnd(item=0), end())

    assert "hidden by the server" in text_of(hidden)
    assert "words" not in text_of(hidden)


def test_the_category_of_a_refusal_is_in_words() -> None:
    answer = shown(events.RefusalDelta(item=0, content="No.", category="general_harms"))

    assert "Refused general harms" in text_of(answer)


# --- steps ----------------------------------------------------------------------------------------


def researched(name: str) -> events.ActivityStep:
    return events.ActivityStep(
        family="research", step=name, phase="done", label=f"The {name}", ref=name
    )


def test_steps_are_called_research_only_if_something_is_looked_for() -> None:
    tool, mockup = researched("tool_call"), researched("creating_mockup")

    assert "Research 3 steps" in text_of(shown(tool, mockup, researched("reading"), end()))
    assert "Activity 2 steps" in text_of(shown(tool, mockup, end()))
    assert "Research" not in text_of(shown(tool, mockup, end()))


def test_a_single_step_is_its_own_title() -> None:
    page = parse(shown(researched("tool_call"), end()).snapshot())
    (head,) = (each for each in page.elements() if each.tag == "summary")

    assert " ".join(head.text().split()) == "Done: The tool_call"


def test_a_step_that_a_card_of_a_call_shows_is_not_shown_twice() -> None:
    call = events.ToolCallStart(item=0, tool="web_search", call_id="ws_1", executes="upstream")
    steps = [
        events.ActivityStep(family="web_search", step="search", phase=phase, label="Look", ref=ref)
        for phase, ref in (("start", "ws_1"), ("done", "ws_1"), ("done", "ws_2"))
    ]

    assert "Look" not in text_of(shown(call, *steps[:2]))
    assert text_of(shown(call, *steps)).count("Look") == 2


def test_a_call_of_a_paused_run_goes_on_below() -> None:
    call = events.ToolCallStart(item=0, tool="web_search", executes="upstream")
    paused = end("incomplete")
    paused.result.ext.stop = events.Stop(reason="pause")

    assert "Continued below" in text_of(shown(call, paused))


# --- media ----------------------------------------------------------------------------------------


def test_media_that_cannot_be_shown_say_so() -> None:
    sound = events.MediaUpdate(item=0, media_id="s", media_type="audio/mp3", data="AAAA")
    nothing = events.MediaUpdate(item=0, media_id="s", media_type="audio/*")

    assert "Sound MP3 3 bytes Not shown here. Download it" in text_of(shown(sound))
    assert "Sound There is no text for it" in text_of(shown(nothing))


def sound(data: str | None = None, transcript: str | None = None) -> events.MediaUpdate:
    return events.MediaUpdate(
        item=0,
        media_id="s",
        media_type="audio/*",
        state="partial",
        data=data,
        transcript=transcript,
    )


def test_pieces_of_a_sound_are_one_sound() -> None:
    pieces = (sound(transcript="The water "), sound("AAAA"), sound("AA==", "murmurs."))

    assert "Sound in progress 4 bytes The water murmurs." in text_of(shown(*pieces))


@pytest.mark.parametrize(
    ("status", "words"),
    [("completed", "Sound 3 bytes Hush."), ("failed", "Sound not finished 3 bytes Hush.")],
)
def test_no_sound_is_in_progress_when_the_answer_has_ended(status: str, words: str) -> None:
    answer = shown(sound("AAAA", "Hush."), end(status))

    assert words in text_of(answer)
    assert "Download it" in text_of(answer)


def test_nothing_from_a_cache_is_no_news() -> None:
    cached = [
        text_of(shown(*message("x"), end(usage=events.Usage(cache_read_tokens=tokens))))
        for tokens in (0, 7)
    ]

    assert "from cache" not in cached[0]
    assert "7 from cache" in cached[1]


def test_probabilities_are_counted() -> None:
    ending = end()
    ending.result.output = [events.MessageItem(content="x", logprobs=[{"token": "x"}] * 12)]

    assert "12 with probabilities" in text_of(shown(*message("x"), ending))


# --- endings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("waiting", "The answer waits."),
        ("incomplete", "The answer is not complete."),
        ("stopped", "Stopped."),
        ("failed", "The answer failed."),
        ("cut", "The connection broke off"),
        ("interrupted", "our server stopped"),
    ],
)
def test_each_ending_has_its_own_words_and_keeps_the_text(status: str, words: str) -> None:
    answer = shown(*message("So far so good."), end(status))

    assert words in text_of(answer)
    assert "So far so good." in text_of(answer)


def test_a_complete_answer_has_no_card() -> None:
    assert "verdict" not in shown(*message("Done."), end()).snapshot()


def test_an_empty_answer_says_so() -> None:
    assert "without writing anything" in text_of(shown(START, end()))


@pytest.mark.parametrize(
    ("reason", "words"), [("length", "length limit"), ("content_filter", "content filter")]
)
def test_an_incomplete_answer_says_why(reason: str, words: str) -> None:
    ending = end("incomplete")
    ending.result.ext.stop.reason = reason  # type: ignore[assignment]

    assert words in text_of(shown(*message("x"), ending))


def test_an_error_that_came_only_with_the_ending_is_told_once() -> None:
    error = events.ErrorInfo(kind="auth", message="bad key")

    alone = text_of(shown(end("failed", error=error)))
    both = text_of(shown(events.Error(error=error), end("failed", error=error)))

    assert alone.count("The server refused the key.") == 1
    assert both.count("The server refused the key.") == 1


@pytest.mark.parametrize("kind", events.ErrorKind.__args__)
def test_each_kind_of_error_says_what_happened_and_what_to_do(kind: str) -> None:
    error = events.ErrorInfo(kind=kind)  # type: ignore[arg-type]
    card = next(
        e
        for e in parse(shown(events.Error(error=error)).snapshot()).elements()
        if "verdict" in e.attributes.get("class", "")
    )

    assert len(card.text()) > 35


# --- figures --------------------------------------------------------------------------------------


def test_figures_are_at_the_end_and_missing_ones_are_left_out() -> None:
    text = text_of(shown(*message("x"), end()))

    assert "1,234 tokens in" in text
    assert "41.2 tokens/s" in text
    assert "for thinking" not in text
    assert "loading" not in text


@pytest.mark.parametrize("name", EVENT_TYPES)
def test_every_event_type_has_words_for_a_run_s_details(name: str) -> None:
    assert EVENTS[name]


@pytest.mark.parametrize(("tokens", "is_told"), [(0, False), (12, True)])
def test_thinking_is_counted_where_there_was_some(tokens: int, is_told: bool) -> None:
    ending = end()
    ending.result.stats.reasoning_output_tokens = tokens

    assert ("for thinking" in text_of(shown(*message("x"), ending))) is is_told


@pytest.mark.parametrize(("story", "is_told"), [([], False), (message("So far"), True)])
def test_the_time_of_a_failure_is_told_where_something_came(
    story: list[Event], is_told: bool
) -> None:
    ending = end("failed", error=events.ErrorInfo(kind="network"))
    ending.result.stats = events.Stats()

    assert ("in total" in text_of(shown(*story, ending))) is is_told


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (0, "0 ms"),
        (40, "40 ms"),
        (449, "0.4 s"),
        (9_960, "10 s"),
        (59_400, "59 s"),
        (125_000, "2 min 5 s"),
    ],
)
def test_durations_read_well(milliseconds: int, words: str) -> None:
    assert figures.duration(milliseconds) == words


@pytest.mark.parametrize("nonsense", [float("inf"), float("nan"), -1.0, 1e308])
def test_nonsense_figures_do_not_break_the_answer(nonsense: float) -> None:
    ending = end("failed", error=events.ErrorInfo(retry_after_seconds=nonsense))
    ending.result.stats.time_to_first_token_seconds = nonsense
    ending.result.stats.tokens_per_second = nonsense

    assert "to first token" in text_of(shown(ending))


@pytest.mark.parametrize(
    ("number", "words"), [(5, "5 bytes"), (2048, "2.0 kB"), (3 * 1024**2, "3.0 MB")]
)
def test_sizes_read_well(number: int, words: str) -> None:
    assert figures.size(number) == words
