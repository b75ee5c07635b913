"""Scenes: which words in a prompt choose which answer."""

import re
from collections.abc import Callable
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
