"""Scenes of the demo: which words in a prompt choose which answer, and its pace."""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from chat.demo import prose

JsonObject = dict[str, Any]
Ending = Literal["whole", "error", "cut"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a person asked, however it came in."""

    text: str
    number: int = 1
    previous_question: str = ""
    # Short descriptions of what came along: a system prompt, pictures, parameters.
    received: tuple[str, ...] = ()
    # Whether the model thinks without being asked to; ``None`` where a person switched it off.
    thinks: bool | None = False
    # Results of the calls that an earlier answer of this turn asked for.
    tool_results: tuple[str, ...] = ()
    # Whether tools are run by the upstream; where not, an answer ends with its calls.
    runs_tools: bool = True


@dataclass(frozen=True, slots=True)
class Reasoning:
    text: str


@dataclass(frozen=True, slots=True)
class Message:
    """``splits_a_pair``: the first character beyond the first plane comes as two halves of a
    surrogate pair in two deltas, as servers that count in UTF-16 do."""

    text: str
    splits_a_pair: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    tool: str
    arguments: JsonObject
    output: str
    server_label: str = "river"
    seconds: float = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFailure:
    """A call that names a tool which does not exist."""

    tool: str
    reason: str
    # What a model without a server to check them would send as arguments: not JSON.
    broken_arguments: str


Part = Reasoning | Message | Refusal | ToolCall | ToolFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    parts: tuple[Part, ...]
    prompt_seconds: float = 0.6
    forgets_model: bool = False
    ending: Ending = "whole"


# --- the answers -----------------------------------------------------------------------------


def _welcome(turn: Turn) -> tuple[Part, ...]:
    if turn.number > 1:
        return (Message(prose.WELCOME_BACK + _received(turn)),)
    return (Message(prose.WELCOME + _received(turn)),)


def _received(turn: Turn) -> str:
    if not turn.received:
        return ""
    return f"\nWith this turn came {_listed(turn.received)}.\n"


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(words[:-1]) + " and " + words[-1] if len(words) > 1 else words[0]


def _long(turn: Turn) -> tuple[Part, ...]:
    return (Message(prose.ESSAY),)


def _very_long(turn: Turn) -> tuple[Part, ...]:
    return (Message("".join(prose.book())),)


def _code(turn: Turn) -> tuple[Part, ...]:
    return (Message(prose.CODE),)


def _table(turn: Turn) -> tuple[Part, ...]:
    return (Message(prose.TABLE),)


def _unicode(turn: Turn) -> tuple[Part, ...]:
    return (Message(prose.UNICODE, splits_a_pair=True),)


def _think(turn: Turn) -> tuple[Part, ...]:
    return (Reasoning(prose.RIDDLE_THOUGHTS), Message(prose.RIDDLE_ANSWER))


def _refuse(turn: Turn) -> tuple[Part, ...]:
    return (Refusal(prose.REFUSAL),)


_READ_GAUGE = ToolCall(
    tool="read_gauge",
    arguments={"station": "Mill Bridge", "hours": 12, "series": ["level_m", "flow_m3s"]},
    output='[{"type":"text","text":"{\\"station\\":\\"Mill Bridge\\",\\"readings\\":['
    '{\\"time\\":\\"06:00\\",\\"level_m\\":1.94,\\"flow_m3s\\":41},'
    '{\\"time\\":\\"12:00\\",\\"level_m\\":2.12,\\"flow_m3s\\":49},'
    '{\\"time\\":\\"18:00\\",\\"level_m\\":2.31,\\"flow_m3s\\":58}]}"}]',
)
_OPEN_SLUICE = ToolFailure(
    tool="open_sluice",
    reason="Cannot find tool with name open_sluice.",
    broken_arguments='{"sluice": "upper", "notches": ',
)


def _tool(turn: Turn) -> tuple[Part, ...]:
    if turn.tool_results:
        return (Message(_citing(turn.tool_results)),)
    fails = bool(_FAIL.search(turn.text))
    calls: tuple[Part, ...] = (_READ_GAUGE, _OPEN_SLUICE) if fails else (_READ_GAUGE,)
    before = (Reasoning(prose.TOOL_THOUGHTS),)
    if not turn.runs_tools:
        return (*before, Message(prose.TOOL_OUTSIDE), *calls)
    after = prose.TOOL_ANSWER + ("\n" + prose.TOOL_FAILED_ANSWER if fails else "")
    return (*before, Message(prose.TOOL_FIRST_WORDS), *calls, Message(after))


def _citing(results: tuple[str, ...]) -> str:
    quotes = "\n\n".join(f"```\n{result[:2000]}\n```" for result in results)
    return f"Thank you. The tool answered:\n\n{quotes}\n\nSo that is the state of the river.\n"


# --- choosing ----------------------------------------------------------------------------------


def _word(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)


_FAIL = _word("fail(?:s|ed|ing|ure)?")
_SLOW = _word("slow(?:ly)?")
_LOAD = _word("load(?:s|ed|ing)?")
_ERROR = _word("errors?")
_CUT = _word("cuts?")

# The first that is found decides, so the more special ones come first.
_ANSWERS: tuple[tuple[re.Pattern[str], Callable[[Turn], tuple[Part, ...]]], ...] = (
    (_word("very long"), _very_long),
    (_word("tools?"), _tool),
    (_word("codes?"), _code),
    (_word("tables?"), _table),
    (_word("unicode"), _unicode),
    (_word("refuse[sd]?"), _refuse),
    (_word("think(?:s|ing)?|reason(?:s|ing)?"), _think),
    (_word("long"), _long),
)
# What stands in for the answer where only a manner was asked for.
_MANNERS: tuple[tuple[re.Pattern[str], str], ...] = (
    (_CUT, prose.BEFORE_THE_BREAK),
    (_ERROR, prose.BEFORE_THE_BREAK),
    (_SLOW, prose.SLOWLY),
    (_LOAD, prose.LOADED),
)

SLOW_SECONDS = 15.0


def choose(turn: Turn) -> Scene:
    """The scene for a turn: an answer by its words, and the manner in which it is given."""
    parts = _tool(turn) if turn.tool_results else _parts(turn)
    return Scene(
        parts=_remembering(turn, _thinking(turn, parts)),
        prompt_seconds=SLOW_SECONDS if _SLOW.search(turn.text) else 0.6,
        forgets_model=bool(_LOAD.search(turn.text)),
        ending=_ending(turn.text),
    )


def _parts(turn: Turn) -> tuple[Part, ...]:
    for pattern, answer in _ANSWERS:
        if pattern.search(turn.text):
            return answer(turn)
    for pattern, text in _MANNERS:
        if pattern.search(turn.text):
            return (Message(text),)
    return _welcome(turn)


def _ending(text: str) -> Ending:
    if _CUT.search(text):
        return "cut"
    return "error" if _ERROR.search(text) else "whole"


def _thinking(turn: Turn, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """A model that reasons thinks first, unless the scene does; none thinks that was told not to."""
    if turn.thinks is None:
        return tuple(part for part in parts if not isinstance(part, Reasoning))
    if turn.thinks and not isinstance(parts[0], Reasoning):
        return (Reasoning(prose.THOUGHT), *parts)
    return parts


def _remembering(turn: Turn, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """From the second turn on, the first message says which conversation it continues."""
    if turn.number < 2 or turn.tool_results:
        return parts
    found = list(parts)
    for position, part in enumerate(found):
        if isinstance(part, Message):
            found[position] = replace(part, text=_memory(turn) + part.text)
            break
    return tuple(found)


def _memory(turn: Turn) -> str:
    question = " ".join(turn.previous_question.split())
    short = question if len(question) <= 80 else question[:79] + "…"
    return f"*This is turn {turn.number} of our conversation; before that you asked: “{short}”*\n\n"


# Saying a scene: its parts as tokens, at the pace of a model on a good machine.

# Without pauses the loop still has to see what clients do; every so many tokens is enough.
TOKENS_PER_BREATH = 16
# An error or a cut comes this far into the last text.
BREAK_AT = 0.6
_BEYOND_FIRST_PLANE = re.compile("[\U00010000-\U0010ffff]")


def _now() -> float:
    return asyncio.get_running_loop().time()


_sleep = asyncio.sleep


class Pace:
    """True time divided by ``speed``, along a schedule that does not drift; 0 means no pauses.

    ``seconds`` is the time that the answer takes at normal speed. All figures in an answer come
    from it, so that they are plausible, and the same, at any speed.
    """

    def __init__(self, speed: float) -> None:
        self.seconds = 0.0
        self._speed = speed
        self._started = _now()
        self._waits = 0

    def beside(self) -> "Pace":
        """Another schedule from now on at the same speed, for what is said at the same time."""
        return Pace(self._speed)

    async def wait(self, seconds: float) -> None:
        self.seconds += seconds
        self._waits += 1
        delay = self._due() - _now() if self._speed else 0.0
        if delay > 0:
            await _sleep(delay)
        elif self._waits % TOKENS_PER_BREATH == 0:
            await _sleep(0)

    def _due(self) -> float:
        return self._started + self.seconds / self._speed


@dataclass(frozen=True, slots=True)
class Begin:
    part: Reasoning | Message | Refusal


@dataclass(frozen=True, slots=True)
class Token:
    part: Reasoning | Message | Refusal
    text: str


@dataclass(frozen=True, slots=True)
class End:
    part: Reasoning | Message | Refusal


@dataclass(frozen=True, slots=True)
class Break:
    """The answer ends in this part although it has more to say."""

    part: Reasoning | Message | Refusal
    cause: Literal["error", "cut", "length"]


Said = Begin | Token | End | ToolCall | ToolFailure | Break


def tokens(text: str, *, splits_a_pair: bool = False) -> Iterator[str]:
    """The text in pieces of 3 to 6 characters, always the same for the same text."""
    chance = random.Random(len(text))  # noqa: S311 (token lengths are no secret)
    start = 0
    while start < len(text):
        end = start + chance.randint(3, 6)
        token = text[start:end]
        start = end
        pair = _BEYOND_FIRST_PLANE.search(token) if splits_a_pair else None
        if pair:
            splits_a_pair = False
            high, low = _halves(pair.group())
            yield token[: pair.start()] + high
            yield low + token[pair.end() :]
        else:
            yield token


def _halves(character: str) -> tuple[str, str]:
    units = character.encode("utf-16-be")
    return tuple(  # type: ignore[return-value]
        units[at : at + 2].decode("utf-16-be", "surrogatepass") for at in (0, 2)
    )


def paired(text: str) -> str:
    """The text with halves of surrogate pairs, which came in two tokens, joined again."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


async def say(
    scene: Scene, pace: Pace, *, tokens_per_second: float, limit: int | None = None
) -> AsyncIterator[Said]:
    """The parts of a scene in order; stops with a ``Break`` where the scene or the limit says so."""
    left = limit if limit is not None else 1 << 60
    last = _last_text(scene.parts)
    for part in scene.parts:
        if isinstance(part, ToolCall | ToolFailure):
            yield part
            continue
        pieces = list(tokens(part.text, splits_a_pair=getattr(part, "splits_a_pair", False)))
        breaks = scene.ending != "whole" and part is last
        count = int(len(pieces) * BREAK_AT) if breaks else len(pieces)
        yield Begin(part)
        for text in pieces[: min(count, left)]:
            await pace.wait(1 / tokens_per_second)
            yield Token(part, text)
        if left < count:
            yield Break(part, "length")
            return
        left -= count
        if breaks and scene.ending != "whole":
            yield Break(part, scene.ending)
            return
        yield End(part)


def _last_text(parts: tuple[Part, ...]) -> Part | None:
    texts = [part for part in parts if not isinstance(part, ToolCall | ToolFailure)]
    return texts[-1] if texts else None
