"""Tokens, pace and stream builders of the demo."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.demo import encoder, scenes
from tests.demo.streams import named_events_in, openai_chunks_in
from tests.support.upstream import script
from tests.support.upstream.script import Send


@given(st.text())
def test_tokens_joined_are_the_text(text: str) -> None:
    pieces = list(encoder.tokens(text))

    assert encoder.paired("".join(pieces)) == text
    assert all(json.loads(script.json_bytes(piece)) == piece for piece in pieces)


@given(st.binary(), st.integers(0, 10))
def test_pieces_joined_are_the_bytes(data: bytes, split_bytes: int) -> None:
    assert b"".join(Send(base64=data, split_bytes=split_bytes).pieces) == data


async def test_pace_divides_time_by_speed(
    monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    for speed, slept in [(1.0, [2.0, 3.0]), (4.0, [0.5, 0.75])]:
        with subtests.test(speed=speed):
            clock = Clock(monkeypatch)
            pace = encoder.Pace(speed)

            await pace.wait(2)
            await pace.wait(3)

            assert clock.slept == slept


async def test_pace_catches_up_after_a_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    pace = encoder.Pace(1.0)

    clock.now += 1.5
    await pace.wait(1)
    await pace.wait(1)

    assert clock.slept == [0.5]


async def test_pace_goes_on_as_usual_after_the_process_stood_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    pace = encoder.Pace(1.0)

    clock.now += 60
    await pace.wait(1)
    await pace.wait(1)

    assert clock.slept == [1.0]


async def test_speed_0_has_no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    pace = encoder.Pace(0)

    for _ in range(100):
        await pace.wait(60)

    assert set(clock.slept) == {0}


class Clock:
    """The loop's clock, moved by each sleep."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.slept: list[float] = []
        monkeypatch.setattr(encoder, "_now", lambda: self.now)
        monkeypatch.setattr(encoder, "_sleep", self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


def test_every_scene_is_used_and_can_be_read(subtests: pytest.Subtests) -> None:
    folder = scenes.DATA / "scenes"
    places = [scenes.DATA / "scenes.toml", *scenes.DATA.parent.rglob("*.py")]
    used = "".join(place.read_text() for place in places)
    for path in sorted(folder.rglob("*.sse")):
        name = path.relative_to(folder).with_suffix("").as_posix()
        with subtests.test(name):
            assert scenes.load(name)
            assert f'"{name}"' in used


def test_builders_give_complete_streams() -> None:
    events = named_events_in(script.lmstudio_events(script.lmstudio_run("a", "b", reasoning=["r"])))
    chunks = openai_chunks_in(script.openai_chunks(script.openai_run("a", "b", reasoning=["r"])))

    assert events[-1]["result"]["output"] == [
        {"type": "reasoning", "content": "r"},
        {"type": "message", "content": "ab"},
    ]
    assert chunks[1]["choices"][0]["delta"] == {"reasoning_content": "r"}
    assert chunks[-1]["choices"] == []
    assert chunks[-2]["choices"][0]["finish_reason"] == "stop"
    assert not script.openai_chunks([], is_done=False)
