"""What an API client is told of its position in the queue."""

from __future__ import annotations

import uuid

from chat.public_api.answer_stream import AnswerStream
from chat.public_api.log_stream import Following
from chat.runs.queue import QueuePositions


async def test_position_is_sent_once_and_its_end_not_at_all() -> None:
    run = uuid.uuid4()
    following = Following()
    stream = AnswerStream(run, stores=True)
    stream._following = following
    queued = QueuePositions(numbers={run: 2}, places={run: "Queued (position 2)"})

    stream.set_position(queued)
    sent = await following.next(0.01), stream._beat()
    # The position is reported each second, also when the run has left the queue.
    stream.set_position(queued)
    stream.set_position(QueuePositions())

    assert sent[0] == []
    assert b'"place":2' in sent[1]
    assert following._batches.empty()
