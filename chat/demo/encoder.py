"""Plays a scene: its texts as tokens at the pace of a model, through the encoder of an API."""

import asyncio
import random
import re
from collections.abc import Iterator, Sequence

from chat.demo.frames import lmstudio_event
from chat.demo.requests import Cut, DemoRequest, JsonObject
from chat.demo.scenes import Call, Ending, Finish, Scene, Step, Text, TextKind, Wait, values_for

ERROR_TEXT = "The model stopped unexpectedly (this is the demo's error scene)."
# An error or a cut comes at this share of the last text.
BREAK_AT = 0.6
# Without pauses, the loop still has to notice clients that disconnect; this interval is enough.
PAUSES_PER_BREATH = 16
# A busy machine catches up with at most this delay.
MOST_BEHIND_SECONDS = 0.5

# An event, bytes that are sent as they are, or a pause in seconds.
Item = JsonObject | bytes | float


class Encoder:
    """Writes the steps of a scene as events of one API, which the subclasses define.

    `events` is a plain generator, so that an answer can be made without a connection. `done` ends
    the stream.
    """

    tokens_per_second = 75.0
    done = b""

    def __init__(self, asked: DemoRequest, scene: Scene) -> None:
        self.asked = asked
        self.scene = scene
        self.tokens = 0
        self.reasoning_tokens = 0
        # The pauses so far. Figures of an answer come from them and are the same at any speed.
        self.seconds = 0.0
        # The reason of an unusual end.
        self.reason = ""
        self.explanation = ""
        self.calls: list[Call] = []
        self.has_failed = False
        self.is_complete = False
        self.values = values_for(asked)

    # --- what an API defines ---------------------------------------------------------------------

    def begin_answer(self) -> Iterator[Item]:
        """The items before the first text, with the processing of the prompt."""
        yield self.pause(self.scene.prompt_seconds)

    def open(self, kind: TextKind) -> Iterator[Item]:
        return iter(())

    def token(self, kind: TextKind, text: str) -> Iterator[Item]:
        raise NotImplementedError

    def close(self, kind: TextKind, text: str) -> Iterator[Item]:
        """The end of a text, which is complete or cut by the limit of tokens."""
        return iter(())

    def call(self, call: Call) -> Iterator[Item]:
        """Keeps a call that the client runs: those are listed at the end."""
        self.calls.append(call)
        return iter(())

    def event(self, name: str, data: JsonObject) -> Iterator[Item]:
        """An event that the scene holds for this API."""
        raise NotImplementedError

    def fail(self, ending: Ending) -> Iterator[Item]:
        """An error in the middle of the answer."""
        raise NotImplementedError

    def end_answer(self) -> Iterator[Item]:
        return iter(())

    def frame(self, event: JsonObject) -> bytes:
        return lmstudio_event(event)

    # --- the steps of a scene --------------------------------------------------------------------------

    def events(self) -> Iterator[Item]:
        """The whole answer. Raises ``Cut`` where the connection is to break off."""
        yield from self.begin_answer()
        yield from self.perform()

    def perform(self) -> Iterator[Item]:
        texts = [step for step in self.scene.steps if isinstance(step, Text)]
        for step in self.scene.steps:
            is_last = bool(texts) and step is texts[-1]
            yield from self._step(step, self.scene.ending if is_last else "whole")
            if self.has_failed:
                return

    def _step(self, step: Step, ending: Ending) -> Iterator[Item]:
        if isinstance(step, Finish):
            self.is_complete = True
            self.reason = self.reason or step.reason
            self.explanation = step.explanation
            yield from self.end_answer()
        elif self.reason and not self.is_complete:
            # The limit is reached: texts and calls are left out, the end is not.
            return
        elif isinstance(step, Text):
            yield from self._say(step, ending)
        elif isinstance(step, Call):
            yield from self.call(step)
        elif isinstance(step, Wait):
            yield self.pause(step.seconds)
        else:
            yield from self.event(step.name, self.values.fill(step.data))

    def _say(self, step: Text, ending: Ending) -> Iterator[Item]:
        whole = self.values.fill_text(step.text)
        pieces = list(tokens(whole))
        if ending != "whole":
            pieces = pieces[: int(len(pieces) * BREAK_AT)]
        yield from self.open(step.kind)
        shown = []
        for piece in pieces:
            if self.asked.limit is not None and self.tokens >= self.asked.limit:
                self.reason = "length"
                break
            yield self.pause(1 / self.tokens_per_second)
            self.tokens += 1
            self.reasoning_tokens += step.kind == "reasoning"
            shown.append(piece)
            yield from self.token(step.kind, piece)
        said = paired("".join(shown))
        if step.kind == "message":
            self.values["said"] += said
        if ending == "cut" and not self.reason:
            raise Cut
        if ending != "whole" and not self.reason:
            self.has_failed = True
            yield from self.fail(ending)
            return
        yield from self.close(step.kind, said)

    def wait(self, seconds: float, heartbeat: bytes, every_seconds: float) -> Iterator[Item]:
        """A long pause, in which heartbeats keep the connection alive."""
        while seconds > 0:
            yield self.pause(min(seconds, every_seconds))
            seconds -= every_seconds
            if seconds > 0 and heartbeat:
                yield heartbeat

    def pause(self, seconds: float) -> float:
        self.seconds += seconds
        return seconds


# --- tokens ------------------------------------------------------------------------------------------

_BEYOND_FIRST_PLANE = re.compile("[\U00010000-\U0010ffff]")


def tokens(text: str) -> Iterator[str]:
    """The text in pieces of 3 to 6 characters, always the same for the same text.

    The first character beyond U+FFFF comes as two halves of a surrogate pair in two pieces, as from
    servers that count in UTF-16.
    """
    chance = random.Random(len(text))  # noqa: S311 (token lengths are no secret)
    start = 0
    is_split = False
    while start < len(text):
        end = start + chance.randint(3, 6)
        token = text[start:end]
        start = end
        pair = None if is_split else _BEYOND_FIRST_PLANE.search(token)
        if pair is None:
            yield token
            continue
        is_split = True
        high, low = pair.group().encode("utf-16-be")[:2], pair.group().encode("utf-16-be")[2:]
        yield token[: pair.start()] + high.decode("utf-16-be", "surrogatepass")
        yield low.decode("utf-16-be", "surrogatepass") + token[pair.end() :]


def paired(text: str) -> str:
    """The text with halves of surrogate pairs, which came in two tokens, joined again."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def interleave(answers: Sequence[Iterator[Item]]) -> Iterator[Item]:
    """One event of each answer in turn, until all have ended or one has failed. Only the first
    takes time."""
    going = list(answers)
    while going:
        for answer in list(going):
            for item in answer:
                if not isinstance(item, float) or answer is answers[0]:
                    yield item
                if isinstance(item, dict):
                    if "error" in item:
                        return
                    break
            else:
                going.remove(answer)


# --- time ------------------------------------------------------------------------------------------------


def _now() -> float:
    return asyncio.get_running_loop().time()


_sleep = asyncio.sleep


class Pace:
    """Real time divided by ``speed``, along a schedule that does not drift; 0 means no pauses.
    After the process was suspended, the answer continues at the same pace."""

    def __init__(self, speed: float) -> None:
        self._seconds = 0.0
        self._speed = speed
        self._started = _now()
        self._waits = 0

    async def wait(self, seconds: float) -> None:
        self._seconds += seconds
        self._waits += 1
        delay = self._started + self._seconds / self._speed - _now() if self._speed else 0.0
        if delay < -MOST_BEHIND_SECONDS:
            self._started -= delay
        if delay > 0:
            await _sleep(delay)
        elif self._waits % PAUSES_PER_BREATH == 0:
            await _sleep(0)
