"""The end of an answer: why it ended, errors, and the figures below it."""

import pytest

from chat import events
from chat.events import Event
from chat.rendering import figures
from tests.rendering.shown import page_of, text_of
from tests.rendering.stories import answer_of, end, message

# How the answer ended, what its stop says, and what people read.
ENDINGS: list[tuple[str, dict[str, object], str]] = [
    ("waiting", {}, "Needs input"),
    ("incomplete", {}, "The answer is incomplete"),
    ("incomplete", {"reason": "length"}, "length limit"),
    ("incomplete", {"reason": "content_filter"}, "content filter"),
    (
        "incomplete",
        {"reason": "refusal", "details": {"recommended_model": "weir/small-1"}},
        "Try again with weir/small-1.",
    ),
    ("stopped", {}, "Stopped"),
    ("stopped", {"by": "Ana <b>"}, "Stopped by Ana <b>"),
    ("stopped", {"raw": "cancelled"}, "The server canceled the answer"),
    ("failed", {}, "The answer failed"),
    ("cut", {}, "The connection was lost"),
    ("interrupted", {}, "because Tributary restarted"),
    (
        "completed",
        {"reason": "unknown", "raw": "tired"},
        "ended by the server for the reason “tired”",
    ),
]


@pytest.mark.parametrize(("status", "stop", "words"), ENDINGS)
def test_ending_is_named_and_the_text_is_kept(
    status: str, stop: dict[str, object], words: str
) -> None:
    ending = end(status)
    for name, value in stop.items():
        setattr(ending.result.ext.stop, name, value)

    text = text_of(*message("So far so good."), ending)

    assert words in text
    assert "So far so good." in text


def test_complete_answer_has_no_card() -> None:
    assert "verdict" not in answer_of(*message("Done."), end()).snapshot()


def test_unreadable_frames_are_told_under_the_answer() -> None:
    assert "2 parts of the stream couldn’t be read" in text_of(
        *message("So."), end(unreadable_frames=2)
    )


def test_settings_that_fit_better_are_offered_under_the_answer() -> None:
    meta = {"suggested_options": {"cumulative_text": True, "inline_think": "assume_open", "x": 1}}

    text = text_of(*message("So."), end(meta=meta))

    assert "If this answer repeats itself, turn on" in text
    assert "set “Thinking tags” to “Assume an opening tag”" in text


def test_end_of_a_further_answer_is_shown() -> None:
    stops = [("length", "length limit"), ("error", "The answer failed"), ("stop", None)]
    for reason, words in stops:
        stop = events.Stop(reason=reason)  # type: ignore[arg-type]
        other = events.Alternative(choice=1, output=[], stop=stop)
        log = [events.MessageStart(item=0, choice=1), events.MessageEnd(item=0, choice=1)]

        snapshot = answer_of(*message("One."), *log, end(alternatives=[other])).snapshot()

        assert ("-c1-end" in snapshot) is (words is not None)
        assert words is None or words in snapshot


def test_empty_answer_says_so() -> None:
    text = text_of(events.ChatStart(model_instance_id="m"), end())

    assert "The model returned an empty answer" in text


# --- errors -----------------------------------------------------------------------------------


def test_broken_connection_is_mentioned_once() -> None:
    error = events.ErrorInfo(kind="cut", message="The connection was lost. Try again.")

    assert text_of(*message("So far"), end("cut", error=error)).count("was lost") == 1


def test_error_is_shown_once() -> None:
    error = events.ErrorInfo(kind="auth", message="bad key")

    in_the_ending = text_of(end("failed", error=error))
    as_event_too = text_of(events.Error(error=error), end("failed", error=error))

    assert in_the_ending.count("The server rejected the API key") == 1
    assert as_event_too.count("The server rejected the API key") == 1


def test_limit_of_an_answer_is_said_with_what_was_kept() -> None:
    words = "The answer was stopped because it reached the limit of 64 MB."
    error = events.ErrorInfo(kind="answer_limit", message=words)

    shown = text_of(*message("So far"), events.Error(error=error), end("failed", error=error))

    assert words.removesuffix(".") in shown
    assert "The text above is saved." in shown


def test_every_kind_of_error_is_explained() -> None:
    for kind in events.ErrorKind.__args__:
        (card, *_) = page_of(events.Error(error=events.ErrorInfo(kind=kind))).find_all(
            class_="verdict"
        )

        assert len(card.text()) > 35, kind


# --- figures --------------------------------------------------------------------------------------


def figures_line(*story: Event) -> str:
    (line,) = page_of(*story).find_all(class_="figures")
    return line.words()


def test_figures_are_one_short_line() -> None:
    assert figures_line(*message("x"), end()) == "56 tokens · 0.5 s"


def test_unknown_tokens_are_left_out() -> None:
    ending = end()
    ending.result.stats = events.Stats()

    assert figures_line(*message("x"), ending) == "0.5 s"


@pytest.mark.parametrize(("story", "is_shown"), [([], False), (message("So far"), True)])
def test_failure_shows_its_time_only_after_output(story: list[Event], is_shown: bool) -> None:
    ending = end("failed", error=events.ErrorInfo(kind="network"))
    ending.result.stats = events.Stats()

    assert (figures_line(*story, ending) != "") is is_shown


@pytest.mark.parametrize("nonsense", [float("inf"), float("nan"), -1.0, 1e308])
def test_nonsensical_figures_break_nothing(nonsense: float) -> None:
    ending = end("failed", error=events.ErrorInfo(retry_after_seconds=nonsense))
    ending.result.stats.time_to_first_token_seconds = nonsense
    ending.result.stats.tokens_per_second = nonsense

    assert figures_line(ending).startswith("56 tokens")


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
def test_duration(milliseconds: int, words: str) -> None:
    assert figures.duration(milliseconds) == words


@pytest.mark.parametrize(
    ("number", "words"), [(5, "5 bytes"), (2048, "2.0 KB"), (3 * 1024**2, "3.0 MB")]
)
def test_size(number: int, words: str) -> None:
    assert figures.size(number) == words
