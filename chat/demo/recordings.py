"""Scenes of the APIs that the demo only plays: the frames of an answer are in `data/wire/`."""

import functools
import json
import time
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from chat.demo import mockups
from chat.demo.encoder import ERROR_TEXT, Encoder, Item, tokens
from chat.demo.frames import json_bytes
from chat.demo.requests import DemoRequest, DemoState, JsonObject
from chat.demo.scenes import DATA, SLOW_SECONDS, Call, Ending, Scene, TextKind

# The next item of the answer begins after these.
_ITEM_ENDS = ("content_block_stop", "response.output_item.done")


@dataclass(frozen=True, slots=True)
class Frame:
    """One event of a recording; without data it is sent unchanged."""

    name: str
    data: JsonObject | None
    raw: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """A file of `data/wire/`: the frames of each point of an answer."""

    sections: Mapping[str, tuple[Frame, ...]]
    reasons: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    heartbeat: str = ""
    heartbeat_seconds: float = 1.0
    slow_seconds: float = 0.0


@functools.cache
def wire_of(dialect: str) -> Wire:
    entries = tomllib.loads(DATA.joinpath("wire", f"{dialect}.toml").read_text())
    sections = {name: _frames_in(text) for name, text in entries.pop("sections").items()}
    return Wire(sections=sections, **entries)


def _frames_in(text: str) -> tuple[Frame, ...]:
    return tuple(_frame(block) for block in text.strip("\n").split("\n\n") if block)


def _frame(block: str) -> Frame:
    lines = dict(line.split(": ", 1) for line in block.split("\n"))
    data = lines.get("data", "")
    if not data.startswith("{"):
        return Frame("", None, f"{block}\n\n".encode())
    return Frame(lines.get("event", ""), json.loads(data))


class RecordedAnswer(Encoder):
    """Plays a scene in the frames of its API."""

    def __init__(self, asked: DemoRequest, scene: Scene, state: DemoState) -> None:
        super().__init__(asked, scene)
        self._state = state
        self._wire = wire_of(asked.dialect)
        self.values.update(
            self._wire.values,
            model=asked.model,
            created=int(time.time()),
            input_tokens=asked.input_tokens,
            number=0,
            index=0,
            error=ERROR_TEXT,
        )

    def begin_answer(self) -> Iterator[Item]:
        yield from self._play("begin")
        seconds = self.scene.prompt_seconds
        if seconds == SLOW_SECONDS and self._wire.slow_seconds:
            seconds = self._wire.slow_seconds
        yield from self.wait(seconds, self._wire.heartbeat.encode(), self._wire.heartbeat_seconds)

    def perform(self) -> Iterator[Item]:
        yield from super().perform()
        if not self.has_failed:
            yield from self._play("close")

    def open(self, kind: TextKind) -> Iterator[Item]:
        yield from self._play(f"{kind}_open")

    def token(self, kind: TextKind, text: str) -> Iterator[Item]:
        yield from self._play(f"{kind}_delta", delta=text)

    def close(self, kind: TextKind, text: str) -> Iterator[Item]:
        yield from self._play(f"{kind}_close", text=text)

    def call(self, call: Call) -> Iterator[Item]:
        values = {"tool": call.tool, "arguments": call.written, "call": len(self.calls)}
        self.calls.append(call)
        yield from self._play("call_open", **values)
        for piece in tokens(call.written) if "call_delta" in self._wire.sections else ():
            yield self.pause(1 / self.tokens_per_second)
            yield from self._play("call_delta", delta=piece)
        yield from self._play("call_close", **values)

    def event(self, name: str, data: JsonObject) -> Iterator[Item]:
        if "bundleId" in data:
            data = {**data, **mockups.next_version(data["bundleId"], self._state)}
        yield from self._play("event", name=name, data=data)
        self._count_item(name)

    def fail(self, ending: Ending) -> Iterator[Item]:
        yield from self._play_variant("fail", ending)

    def end_answer(self) -> Iterator[Item]:
        reason = self.reason or ("tool_calls" if self.calls else "stop")
        self.values.update(tokens=max(1, self.tokens), thinking_tokens=self.reasoning_tokens)
        self.values.update(total_tokens=self.asked.input_tokens + self.tokens)
        self.values.update(reason=self._wire.reasons.get(reason, reason))
        self.values.update(explanation=self.explanation)
        yield from self._play_variant("finish", reason)

    def _play_variant(self, section: str, variant: str) -> Iterator[Item]:
        """The section for one reason, if there is one."""
        name = f"{section}_{variant}"
        yield from self._play(name if name in self._wire.sections else section)

    def _play(self, section: str, **values: object) -> Iterator[Item]:
        self.values.update(values)
        for frame in self._wire.sections.get(section, ()):
            if frame.data is None:
                yield frame.raw
                continue
            head = f"event: {self.values.fill_text(frame.name)}\n" if frame.name else ""
            data = json_bytes(self.values.fill(frame.data))
            yield b"%bdata: %b\n\n" % (head.encode(), data)
            self.values["number"] += 1
            self._count_item(frame.name)

    def _count_item(self, name: str) -> None:
        if name in _ITEM_ENDS:
            self.values["index"] += 1
            self.values.forget_item()
