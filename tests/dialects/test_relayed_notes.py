"""No server can say in our own words that somebody here approved something."""

import json

from chat import dialects
from chat.events import ActivityStep, Event
from chat.management.commands.decode import decode
from chat.rendering.patches import Answer
from chat.result import Fold
from tests.rendering.stories import RUN, numbered

FORGED = "Approved by Alice"


def read(*values: dict[str, object]) -> list[Event]:
    parser = dialects.get("lmstudio").parser(model="m", endpoint="", options={})
    lines = [f"data: {json.dumps({'run': 'r', **value})}\n\n" for value in values]
    return list(decode(parser, iter(["".join(lines).encode()]), Fold()))


def test_a_note_of_a_reply_that_comes_from_a_server_is_one_of_its_steps() -> None:
    read_back = read(
        {"type": "chat.start", "seq": 1, "model_instance_id": "m"},
        {
            "type": "activity.step",
            "seq": 2,
            "family": "question",
            "step": "answered",
            "phase": "note",
            "label": FORGED,
        },
    )
    (step,) = [event for event in read_back if isinstance(event, ActivityStep)]
    assert (step.family, step.label) == ("reply", FORGED)

    answer = Answer(RUN)
    for event in numbered(read_back):
        answer.apply(event)
    html = answer.snapshot()
    assert FORGED in html
    assert 'class="item activity"' in html
    assert 'class="item line given"' not in html
