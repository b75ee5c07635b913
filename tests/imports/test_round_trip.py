"""Whatever an importer makes of a file, our own export has it, and our own import takes that."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chat.imports.actions import import_file
from chat.models import Conversation, ImportedSource, Team, User
from tests.imports import (
    examples_chatgpt,
    examples_claude,
    examples_librechat,
    examples_open_webui,
)
from tests.imports.files import as_json
from tests.imports.test_trees import JSON_VALUES, places_in, trees
from tests.imports.test_tributary import exported, without_ids
from tests.imports.writers import WRITERS
from tests.support.selection import EXHAUSTIVE, sample
from tests.support.stored import rolled_back

EXAMPLES = {
    "chatgpt": examples_chatgpt,
    "claude": examples_claude,
    "librechat": examples_librechat,
    "open_webui": examples_open_webui,
}


def check_round_trip(user: User, team: Team, value: Any, name: str) -> None:
    with rolled_back():
        report = import_file(user, team, as_json([value]), format_name=name)
        if not report.created:
            return
        before = exported(user, Conversation.objects.get())
        Conversation.objects.all().delete()
        ImportedSource.objects.all().delete()

        report = import_file(user, team, io.BytesIO(before))

        assert (report.created, report.not_understood, report.left_out) == (1, [], [])
        after = exported(user, Conversation.objects.get())
        assert without_ids(after.decode(), after) == without_ids(before.decode(), before)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_survive_a_round_trip(
    name: str, alice: User, team: Team, subtests: pytest.Subtests
) -> None:
    for title, value, *_ in sample(EXAMPLES[name].EXAMPLES, 5):
        with subtests.test(title):
            check_round_trip(alice, team, value, name)


@settings(
    max_examples=60 if EXHAUSTIVE else 3,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(trees(), st.sampled_from(sorted(WRITERS)), st.data())
def test_anything_that_an_importer_makes_survives_a_round_trip(
    alice: User, team: Team, tree: Any, name: str, data: st.DataObject
) -> None:
    format_name, write = WRITERS[name]
    value = json.loads(json.dumps(write(tree, len(tree) - 1)))
    for _ in range(data.draw(st.integers(0, 3))):
        places = places_in(value)
        container, key = places[data.draw(st.integers(0, len(places) - 1))]
        container[key] = data.draw(JSON_VALUES | st.just([]) | st.just(""))

    check_round_trip(alice, team, value, format_name)
