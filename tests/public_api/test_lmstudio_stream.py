"""Clients of LM Studio's API get the documented events of each recording, and beyond them only what
docs/api.md lists."""

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from chat.dialects.lmstudio.client_events import ClientEvents
from chat.events import EVENT_TYPES
from chat.events.values import Citation, Extension, Stop, Usage
from chat.public_api.log_stream import encode_entries
from chat.runs.event_buffer import LogEntry
from tests.fixtures import RECORDINGS, ROOT, events_path, name_of
from tests.public_api.lmstudio_shapes import EVENTS, Findings, check_stream

RUN = UUID("0b8f6c1e-58a5-4f8f-9d0b-3f7f1c2f5a10")
API = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
Frames = list[dict[str, Any]]


def sent(lines: list[bytes]) -> Frames:
    """The frames of a log: their fields, and their data as an object."""
    entries = [LogEntry(seq=number, body=body) for number, body in enumerate(lines, 1)]
    stream = encode_entries(entries, RUN, ClientEvents()).decode("ascii")
    blocks = [block.split("\n") for block in stream.removesuffix("\n\n").split("\n\n")]
    frames = [dict(line.split(": ", 1) for line in block) for block in blocks]
    return [{**frame, "data": json.loads(frame["data"])} for frame in frames]


def recorded(recording: Path) -> Frames:
    return sent(events_path(recording).read_bytes().splitlines())


def documented() -> dict[str, set[str]]:
    """The contents of the tables, by the name in their first column."""
    section = API.partition("## Beyond LM Studio\n")[2].partition("\n## ")[0]
    listed: dict[str, set[str]] = {}
    for first, rest in re.findall(r"^\| (.*?) \| (.*) \|$", section, re.MULTILINE):
        for name in re.findall(r"`([^`]+)`", first) or [first]:
            listed[name] = set(re.findall(r"`([^`]+)`", rest))
    return listed


LISTED = documented()


def beyond(further: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Those members and types that are not listed."""
    everywhere = LISTED["every event"]
    return {
        (place, name)
        for place, name in further
        if name not in LISTED.get(place, ())
        and not ((place == "error" or "." in place) and name in everywhere)
    }


def told_twice(frames: Frames) -> list[str]:
    """Events but the last one with the id of the answer, or with the upstream's own result."""
    names = ("response_id", "upstream_result")
    values = [frame["data"].get("values", {}) for frame in frames]
    held = [name for name in names for each in values if name in each]
    ext = frames[-1]["data"]["result"]["ext"]
    return held + [name for name in names if name in ext]


def text_of(frames: Frames) -> str:
    """The text of all messages, in the order of the items."""
    pieces: dict[int, list[str]] = defaultdict(list)
    for frame in frames:
        if frame["event"] == "message.delta":
            pieces[frame["data"]["item"]].append(frame["data"]["content"])
    return "".join("".join(pieces[item]) for item in sorted(pieces))


def test_clients_of_lm_studio_read_every_recording(subtests: pytest.Subtests) -> None:
    for recording in RECORDINGS:
        with subtests.test(name_of(recording)):
            frames, found = recorded(recording), Findings()

            check_stream([(frame["event"], frame["data"]) for frame in frames], found)

            result = frames[-1]["data"]["result"]
            messages = [item for item in result["output"] if item["type"] == "message"]
            assert found.wrong == []
            assert beyond(found.further) == set()
            assert text_of(frames) == "".join(item["content"] for item in messages)
            assert told_twice(frames) == []


def test_every_member_is_listed(subtests: pytest.Subtests) -> None:
    values = {"ext": Extension, "stop": Stop, "usage": Usage, "citation": Citation}
    never_sent = {"ext": {"native", "upstream_result"}}
    for place, struct in {**EVENT_TYPES, **values}.items():
        # A refusal is sent as a message.
        with subtests.test(place := place.replace("refusal.", "message.")):
            known = {"choice", *EVENTS.get(place, ()), *never_sent.get(place, ())}

            assert (
                beyond(
                    {(place, each) for each in struct.__struct_fields__}
                    - {(place, each) for each in known}
                )
                == set()
            )


def refusal(*, number: int, content: str, **members: object) -> bytes:
    return json.dumps(
        {"type": "refusal.delta", "seq": number, "item": 0, "content": content, **members}
    ).encode()


def end(number: int) -> bytes:
    ext = {"status": "completed", "stop": {"reason": "refusal"}}
    output = [{"type": "refusal", "content": "I will not.", "category": "bio"}]
    result = {"model_instance_id": "m", "output": output, "stats": {}, "ext": ext}
    return json.dumps({"type": "chat.end", "seq": number, "result": result}).encode()


def test_refusal_is_one_message() -> None:
    usage = b'{"type": "usage.update", "seq": 2, "usage": {}}'
    tokens = b'{"type": "logprobs.add", "seq": 3, "item": 0, "tokens": [], "target": "refusal"}'
    frames = sent(
        [
            refusal(number=1, content="I will"),
            usage,
            tokens,
            refusal(number=4, content=" not.", category="bio"),
            b'{"type": "message.start", "seq": 5, "item": 1}',
            b'{"type": "message.end", "seq": 6, "item": 1}',
            end(7),
        ]
    )

    messages = [
        (frame.get("id"), frame["event"], frame["data"].get("refusal"))
        for frame in frames
        if frame["event"].startswith("message.")
    ]
    assert messages == [
        (None, "message.start", True),
        ("1", "message.delta", True),
        ("4", "message.delta", True),
        (None, "message.end", True),
        ("5", "message.start", None),
        ("6", "message.end", None),
    ]
    assert text_of(frames) == "I will not."
    assert frames[-1]["data"]["result"]["output"] == [
        {"type": "message", "content": "I will not.", "category": "bio", "refusal": True}
    ]


def test_refusal_at_the_end_is_ended(subtests: pytest.Subtests) -> None:
    for choice, prefix in ((0, ""), (1, "alternative.")):
        with subtests.test(choice=choice):
            frames = sent([refusal(number=1, content="No.", choice=choice), end(2)])

            names = ["message.start", "message.delta", "message.end"]
            assert [frame["event"] for frame in frames] == [
                *(prefix + name for name in names),
                "chat.end",
            ]


def test_alternatives_are_no_messages() -> None:
    frames = recorded(ROOT / "openai_completions" / "t24_two_choices.sse")

    others = [frame for frame in frames if frame["event"].startswith("alternative.")]
    assert text_of(frames) == "Red sky"
    assert [frame["event"] for frame in others] == [
        "alternative.message.start",
        *["alternative.message.delta"] * 2,
        "alternative.message.end",
    ]
    assert {frame["data"]["choice"] for frame in others} == {1}
    assert "".join(frame["data"].get("content", "") for frame in others) == "Blue boat"
    # Every event of the log has its number, so that a client can continue after any of them.
    assert [frame["id"] for frame in frames] == [str(number) for number in range(1, 14)]
