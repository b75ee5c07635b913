"""What the demo does through the Responses API: acts chosen by the words of the question."""

import base64
import functools
import json
import re
from dataclasses import dataclass
from typing import Any

from chat.demo import scenes
from chat.demo.apis.responses.requests import Approval, ResponsesRequest
from chat.demo.media import Colour, png
from chat.demo.offered import with_offered
from chat.demo.scenes import Ending, Message, Part, Reasoning

JsonObject = dict[str, Any]

SERVER = "river"
MCP_TOOLS = (
    {
        "name": "read_gauge",
        "description": "Reads a gauge of the Elder.",
        "input_schema": {"type": "object", "properties": {"station": {"type": "string"}}},
    },
    {
        "name": "open_sluice",
        "description": "Opens a sluice by some notches.",
        "input_schema": {"type": "object", "properties": {"notches": {"type": "integer"}}},
    },
)
SOURCES = (
    ("https://example.org/elder/herons", "Herons of the Elder"),
    ("https://example.org/elder/weir", "The weir at Mill Bridge"),
)

_LOOK = "Let me look that up.\n"
_FOUND = (
    "Herons do live here. ",
    "Two pairs nest above the weir",
    ", and the weir itself is older than both: ",
    "it was built of oak in 1788",
    ".\n",
)
_SEARCH_THOUGHT = (
    "**Weighing a guess**\n\nThis is about birds on one particular river; I should not guess.\n\n"
    "**Looking it up**\n\nA search will tell."
)
_MCP_THOUGHT = "**Finding the right tool**\n\nThe river's server has a gauge. I ask that first."
_MCP_ANSWER = (
    "The gauge at Mill Bridge stands at **2.31 m** and rises by a hand's breadth in six hours. "
    "The server that told me so runs beside mine; you saw the call and its result above.\n"
)
_MCP_FAILED = (
    "\nThe sluice would not open: its server says that it is locked. I report that as it is.\n"
)
_ASKING = "Opening the sluice moves water, so somebody has to allow it first.\n"
_ALLOWED = "You allowed it, and it is done: the upper sluice stands **two notches** open.\n"
_DECLINED = "You declined, so the sluice stays shut. Nothing was moved.\n"
_CODE_THOUGHT = "**Counting properly**\n\nAn average is better computed than guessed."
_CODE = """\
levels = [1.94, 2.12, 2.31]
mean = sum(levels) / len(levels)
print(f"mean {mean:.2f} m")
chart(levels)
"""
_CODE_ANSWER = (
    "On average the river stood at **2.12 m**. The code, what it printed and the picture that it "
    "drew are above; all of it ran at the server.\n"
)
_PICTURE_ANSWER = (
    "There it is: the valley of the Elder at dawn. First came two sketches, each finer than the "
    "one before, and then the picture that stays.\n"
)
_FILTERED = (
    "The story of the old mill is a long one, and it begins on a wet morning in March, when "
)


@dataclass(frozen=True, slots=True)
class Search:
    query: str


@dataclass(frozen=True, slots=True)
class Cited:
    """Pieces of one message; every second one is a quotation of the next source."""

    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListTools:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class McpCall:
    tool: str
    arguments: JsonObject
    output: str = ""
    error: str = ""
    approval: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskApproval:
    tool: str
    arguments: JsonObject


@dataclass(frozen=True, slots=True)
class RunCode:
    code: str
    logs: str


@dataclass(frozen=True, slots=True)
class Draw:
    prompt: str


Act = Part | Search | Cited | ListTools | McpCall | AskApproval | RunCode | Draw


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """The acts of one answer, and how it ends after them."""

    acts: tuple[Act, ...]
    ending: Ending = "whole"
    prompt_seconds: float = 0.6
    is_queued: bool = False
    is_filtered: bool = False


def _word(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)


_FAIL = _word("fail(?:s|ed|ing|ure)?")
_QUEUE = _word("queue[sd]?|background")
_FILTER = _word("filter(?:s|ed)?|incomplete")


def choose(request: ResponsesRequest) -> Play:
    """The first that fits decides, so the more special ones come first."""
    turn = request.turn
    scene = scenes.choose(turn)
    if request.approvals:
        return Play(acts=_after_approval(request.approvals))
    play = next((acts for words, acts in _ACTS if words.search(turn.text)), None)
    if play is not None and not turn.tool_results:
        acts = play(request)
        if turn.thinks is None:
            acts = tuple(act for act in acts if not isinstance(act, Reasoning))
        return Play(acts=acts, is_queued=bool(_QUEUE.search(turn.text)))
    if not turn.tool_results:
        scene = with_offered(
            scene,
            request.tools,
            text=turn.text,
            choice=request.tool_choice,
            is_parallel=request.is_parallel,
        )
    is_filtered = bool(_FILTER.search(turn.text))
    return Play(
        acts=(Message(_FILTERED),) if is_filtered else scene.parts,
        ending=scene.ending,
        prompt_seconds=scene.prompt_seconds,
        is_queued=bool(_QUEUE.search(turn.text)),
        is_filtered=is_filtered,
    )


def _after_approval(approvals: tuple[Approval, ...]) -> tuple[Act, ...]:
    acts: list[Act] = []
    for approval in approvals:
        if approval.is_given:
            acts.append(_approved(approval.request))
    acts.append(Message(_ALLOWED if acts else _DECLINED))
    return tuple(acts)


def _approved(request: JsonObject) -> McpCall:
    return McpCall(
        tool=str(request.get("name")),
        arguments=json.loads(str(request.get("arguments") or "{}")),
        output='{"notches": 2, "moved": true}',
        approval=str(request.get("id")),
    )


def _search(request: ResponsesRequest) -> tuple[Act, ...]:
    return (
        Reasoning(_SEARCH_THOUGHT),
        Message(_LOOK),
        Search("herons on the Elder"),
        Cited(_FOUND),
    )


def _mcp(request: ResponsesRequest) -> tuple[Act, ...]:
    read = McpCall(
        tool="read_gauge", arguments={"station": "Mill Bridge"}, output='{"level_m": 2.31}'
    )
    acts: tuple[Act, ...] = (ListTools(), Reasoning(_MCP_THOUGHT), read)
    if not _FAIL.search(request.turn.text):
        return (*acts, Message(_MCP_ANSWER))
    broken = McpCall(tool="open_sluice", arguments={"notches": 2}, error="The sluice is locked.")
    return (*acts, broken, Message(_MCP_ANSWER + _MCP_FAILED))


def _approval(request: ResponsesRequest) -> tuple[Act, ...]:
    ask = AskApproval(tool="open_sluice", arguments={"notches": 2})
    return (ListTools(), Message(_ASKING), ask)


def _code(request: ResponsesRequest) -> tuple[Act, ...]:
    return (Reasoning(_CODE_THOUGHT), RunCode(_CODE, "mean 2.12 m\n"), Message(_CODE_ANSWER))


def _picture(request: ResponsesRequest) -> tuple[Act, ...]:
    return (Draw("The valley of the Elder at dawn"), Message(_PICTURE_ANSWER))


_ACTS = (
    (_word("approv(?:e[sd]?|al)|allow|permission"), _approval),
    (_word("mcp|gauges?"), _mcp),
    (_word("python|comput(?:e|ing)|calculat(?:e|ion)|interpreter"), _code),
    (_word("pictures?|draw(?:s|ing)?|paint(?:s|ing)?|images?"), _picture),
    (_word("search(?:es)?|web"), _search),
)


# --- pictures ------------------------------------------------------------------------------------

WIDTH, HEIGHT = 120, 80


@functools.lru_cache(maxsize=8)
def picture(cell: int) -> str:
    """A river in its valley as a PNG in base64; ``cell`` is the size of its squares in pixels."""
    drawn = png(WIDTH, HEIGHT, lambda x, y: _colour(x // cell * cell, y // cell * cell))
    return base64.b64encode(drawn).decode()


def _colour(x: int, y: int) -> Colour:
    """Sky above, meadows below, and water that winds between them."""
    horizon = 30 + (x % 40) // 8
    if y < horizon:
        return (230 - y, 200 - y // 2, 170 + y)
    middle = 60 + (y - 55) * (y - 55) // 18 - 20
    if abs(x - middle) < 2 + (y - horizon) // 4:
        return (90, 140 + y // 2, 190)
    return (60 + y // 2, 130 - y // 3, 70)
