"""What a program is told of its place in line, and when there is nothing to tell."""

from __future__ import annotations

import uuid

from chat.consumers.answer_stream import AnswerStream
from chat.consumers.following import Following
from chat.runs.line import Line


async def test_a_place_is_told_once_and_its_end_is_no_news() -> None:
    run = uuid.uuid4()
    following = Following()
    stream = AnswerStream(run, stores=True)
    stream._following = following
    in_line = Line(numbers={run: 2}, places={run: "Place 2 in line"})

    stream.stands_at(in_line)
    told = await following.next(0.01), stream._beat()
    # Each second the watch says how it stands, also when the run has left the line.
    stream.stands_at(in_line)
    stream.stands_at(Line())

    assert told[0] == []
    assert b'"place":2' in told[1]
    assert following._batches.empty()
