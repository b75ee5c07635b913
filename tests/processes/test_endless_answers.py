"""Servers that send without end do not fill the memory of the process."""

from __future__ import annotations

import pytest

from tests.support.processes.memory import peak_bytes
from tests.support.processes.site import Site
from tests.support.upstream.script import Flood, lmstudio_event, lmstudio_events, stream

pytestmark = pytest.mark.slow

STREAMS = 6
LIMIT_BYTES = 4 * 1024 * 1024
# While a long answer is stored it is in memory up to nine times, and what is committed together four
# times; each stream may have read 512 KiB that is not stored yet, as bytes and as text, and as much again
# is being stored. What threads, SQLite and the allocator keep is added to that: 82 to 101 MiB were seen,
# depending on how the threads take turns. Without the limit each stream would hold up to 64 MiB, several
# times.
MOST_BYTES = 128 * 1024 * 1024


@pytest.mark.parametrize("delta_bytes", [1_000, 64_000])
def test_endless_answers_end_at_a_share_of_the_memory(site: Site, delta_bytes: int) -> None:
    site.start(ANSWERS_BYTES=str(LIMIT_BYTES))
    begin = [{"type": "chat.start", "model_instance_id": "m"}, {"type": "message.start"}]
    delta = lmstudio_event({"type": "message.delta", "content": "water " * (delta_bytes // 6)})
    answer = stream(lmstudio_events(begin), Flood(base64=delta))
    # What the first answer of a process loads.
    site.fake.script(stream(lmstudio_events(begin), delta))
    site.until_ended(site.send("Hello."))
    before = peak_bytes(site)

    site.fake.script(*[answer] * STREAMS)
    ended = [site.until_ended(run) for run in [site.send("More.") for _ in range(STREAMS)]]

    assert {run["error_kind"] for run in ended} == {"answer_limit"}
    assert all(run["result"].count("water") > 10_000 for run in ended)
    assert peak_bytes(site) - before < MOST_BYTES
