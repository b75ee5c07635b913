"""Every known trap of the upstream protocols has a recording or a test."""

import re
from itertools import product

import pytest

from chat import dialects
from chat.events import decode_result
from tests.fixtures import RECORDINGS, ROOT, result_path

TESTS = ROOT.parent

# Recordings named ``t<number>_…`` hold these, at one dialect at least.
RECORDED = {
    1: "line separators of Unicode inside JSON",
    2: "all kinds of line ends",
    3: "a byte order mark",
    5: "halves of characters, and NUL",
    6: "one event on many lines, and many events without blank lines",
    7: "no last blank line",
    8: "comments, pings and fields without meaning",
    9: "a name that says something else than the payload",
    10: "an end marker that is missing, early, doubled or without a space",
    11: "an error before the end marker",
    12: "an error in an answer with status 200",
    13: "one JSON body instead of a stream",
    14: "a stream that is cut",
    15: "words after the end",
    16: "token counts after the reason, on every chunk, or null at last",
    17: "fragments of calls without index, id or name, or out of order",
    18: "arguments that are no JSON object",
    19: "a reason that does not fit what was said",
    20: "reasoning after text, and several blocks of it",
    21: "the same reasoning in two members",
    22: "thinking between tags",
    23: "empty deltas",
    24: "several choices at once",
    25: "blocks that nothing starts or stops",
    26: "token counts that are totals",
    27: "what must go back as it came",
    32: "items that interleave, or are told differently at the end",
    33: "errors nested and flat",
    34: "the id of a call that is not the id of its item",
    35: "a whole text after its pieces",
    41: "paths that lead elsewhere",
    43: "counts called delta that are totals",
    46: "a clock that is wrong",
    47: "events and members that nobody knows yet",
}
# These are about reads, requests, sockets and pages: the test that meets each.
TESTED = {
    4: "wire/test_decoder.py::test_any_two_way_split_gives_the_same_events",
    28: "dialects/test_anthropic_requests.py::test_t28_foreign_answer_keeps_calls_without_thinking",
    29: "dialects/test_anthropic_requests.py::test_t29_call_without_result_is_removed",
    30: "dialects/test_anthropic_requests.py::test_t30_tool_results_share_one_message_and_come_first",
    31: "dialects/test_anthropic_requests.py::test_t31_foreign_reasoning_alone_gets_a_placeholder",
    36: "dialects/test_lmstudio_requests.py::test_t36_earlier_turns_become_text",
    37: "dialects/test_lmstudio_requests.py::test_t37_lost_response_id_falls_back_to_text",
    38: "upstreams/test_client.py::test_key_in_an_error_body_is_redacted",
    39: "servers/test_secret_options.py::test_a_secret_option_that_comes_back_is_stored_and_shown_nowhere",
    40: "rendering/test_hostile.py::test_no_field_of_any_event_becomes_markup",
    42: "runs/test_limits.py::test_a_stop_closes_the_upstream_in_every_phase",
    44: "runs/test_limits.py::test_answer_is_cut_at_the_last_byte_and_kept_so_far",
    45: "browser/test_viewers.py::test_viewers_and_a_reload_show_the_same",
}


def test_every_trap_is_listed() -> None:
    assert sorted([*RECORDED, *TESTED]) == list(range(1, 48))


def test_traps_have_a_recording(subtests: pytest.Subtests) -> None:
    for number in RECORDED:
        with subtests.test(number=number):
            assert any(path.name.startswith(f"t{number:02}_") for path in RECORDINGS)


def test_traps_have_a_test(subtests: pytest.Subtests) -> None:
    for number, test in TESTED.items():
        with subtests.test(number=number):
            path, _, name = test.partition("::")

            assert re.search(rf"^(async )?def {name}\(", (TESTS / path).read_text(), re.MULTILINE)


def test_recordings_belong_to_listed_traps() -> None:
    numbers = [re.match(r"t(\d\d)_", path.name) for path in RECORDINGS]

    assert {int(number[1]) for number in numbers if number} <= set(RECORDED)


# What ``manage.py decode`` makes of each is checked with the recordings themselves.
def test_dialects_have_complete_streams_and_bodies(subtests: pytest.Subtests) -> None:
    for dialect, suffix in product(dialects.DIALECTS, (".sse", ".json")):
        with subtests.test(dialect=dialect, suffix=suffix):
            mine = [p for p in RECORDINGS if p.parent.name == dialect and p.suffix == suffix]
            results = [decode_result(result_path(path).read_bytes()) for path in mine]

            assert any(result.ext.status in ("completed", "waiting") for result in results)
