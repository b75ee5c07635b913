"""Scenes: the texts and calls of the demo, read from `data/`, and the choice of one for a request.

`data/README.md` describes the files.
"""

import base64
import functools
import json
import re
import secrets
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from chat.demo.requests import DemoRequest, JsonObject, OfferedTool, arguments_for

DATA = Path(__file__).parent / "data"

TextKind = Literal["reasoning", "message", "refusal"]
Ending = Literal["whole", "error", "preempted", "cut"]

PROMPT_SECONDS = 0.6
SLOW_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Text:
    kind: TextKind
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of a tool. With an `error` it fails. `broken` is a text that makes its arguments
    invalid."""

    tool: str
    arguments: JsonObject = field(default_factory=dict)
    output: str = ""
    error: str = ""
    broken: str = ""

    @property
    def written(self) -> str:
        """The arguments as the model wrote them."""
        return self.broken or json.dumps(self.arguments)


@dataclass(frozen=True, slots=True)
class Wait:
    seconds: float


@dataclass(frozen=True, slots=True)
class Event:
    """An event of one API, sent unchanged once its placeholders are filled."""

    name: str
    data: JsonObject


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of a complete answer. Without a `reason` it is the usual one. Events may follow."""

    reason: str = ""
    explanation: str = ""


Step = Text | Call | Wait | Event | Finish


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    steps: tuple[Step, ...]
    prompt_seconds: float = PROMPT_SECONDS
    reloads_model: bool = False
    ending: Ending = "whole"

    def with_first_message(self, words: str) -> "Scene":
        """The scene with this text before its first message."""
        return replace(self, steps=_with_first_message(self.steps, words))


# --- files ---------------------------------------------------------------------------------------

_TEXT_KINDS: Mapping[str, TextKind] = {
    "think": "reasoning",
    "say": "message",
    "refuse": "refusal",
}


@functools.cache
def load(name: str) -> tuple[Step, ...]:
    """The steps of the scene `data/scenes/<name>.sse`; consecutive texts are joined."""
    steps: list[Step] = []
    for event, data in _events(DATA.joinpath("scenes", f"{name}.sse").read_text()):
        step = _step(event, data)
        last = steps[-1] if steps else None
        if isinstance(step, Text) and isinstance(last, Text) and step.kind == last.kind:
            steps[-1] = Text(step.kind, last.text + step.text)
        else:
            steps.append(step)
    return tuple(steps)


def _events(text: str) -> Iterator[tuple[str, str]]:
    for block in text.split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            name, *data = lines
            rest = (line.removeprefix("data:").removeprefix(" ") for line in data)
            yield name.removeprefix("event: "), "\n".join(rest)


def _step(event: str, data: str) -> Step:
    kind = _TEXT_KINDS.get(event.removesuffix("-file"))
    if kind:
        return Text(kind, _repeated(data) if event.endswith("-file") else data)
    if event == "wait":
        return Wait(float(data))
    members = json.loads(data)
    if event == "call":
        return Call(**members)
    return Finish(**members) if event == "finish" else Event(event, members)


def _repeated(data: str) -> str:
    name, _, times = data.partition(" ")
    return text(name) * int(times or 1)


@functools.cache
def text(name: str) -> str:
    # Translation of newlines would change the line separators in one of the files.
    return DATA.joinpath("texts", name).read_bytes().decode()


# --- placeholders ----------------------------------------------------------------------------------

_PLACEHOLDER = re.compile(r"\{\{([\w:.-]+)\}\}")
# The placeholder `…_item` is new for each item of an answer.
_NEW_ID = re.compile(r"([a-z]+)_(?:\d+|item)")


class Values(dict[str, Any]):
    """The values of the placeholders of one answer."""

    def __missing__(self, name: str) -> Any:
        if name.startswith("file:"):
            data = DATA.joinpath("media", name.removeprefix("file:")).read_bytes()
            return base64.b64encode(data).decode()
        found = _NEW_ID.fullmatch(name)
        if found is None:
            raise KeyError(name)
        self[name] = f"{found[1]}_{secrets.token_hex(16)}"
        return self[name]

    def fill(self, value: Any) -> Any:
        """The value with all placeholders filled; one that stands alone may become any value."""
        if isinstance(value, dict):
            filled = {name: self.fill(member) for name, member in value.items()}
            # The members of `...` replace it.
            members = filled.pop("...", {})
            return {**filled, **members}
        if isinstance(value, list):
            return [self.fill(member) for member in value]
        if not isinstance(value, str):
            return value
        alone = _PLACEHOLDER.fullmatch(value)
        return self[alone[1]] if alone else self.fill_text(value)

    def fill_text(self, value: str) -> str:
        return _PLACEHOLDER.sub(lambda found: str(self[found[1]]), value)

    def forget_item(self) -> None:
        """Gives the next item new ids."""
        for name in [name for name in self if name.endswith("_item")]:
            del self[name]


def values_for(asked: DemoRequest) -> Values:
    received = f"\nWith this message came {_listed(asked.received)}.\n" if asked.received else ""
    quotes = (f"```\n{result[:2000]}\n```" for result in asked.tool_results)
    return Values(
        turn=asked.turn,
        question=_short(asked.text, 40),
        topic=_short(_topic(asked.text) or "", 40),
        received=received,
        tool_results="\n\n".join(quotes),
        # The text so far.
        said="",
        **asked.values,
    )


# Tributary's request for the title of a conversation (`chat/titles/prompt.toml`).
_TITLE_WANTED = re.compile(
    r"Write a title for this conversation\.\s*<question>(.*?)</question>", re.DOTALL
)


def _topic(text: str) -> str | None:
    """The question of the conversation that a title is wanted for; ``None`` for any other request."""
    found = _TITLE_WANTED.search(text)
    return found[1] if found else None


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(words[:-1]) + " and " + words[-1] if len(words) > 1 else words[0]


def _short(question: str, characters: int) -> str:
    line = " ".join(question.split())
    return line if len(line) <= characters else line[: characters - 1] + "…"


# --- choosing ---------------------------------------------------------------------------------------


@functools.cache
def _contains(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """An entry of `scenes.toml`."""

    name: str
    dialect: str = ""
    model: str = ""
    words: str | list[str] = ""
    unless: str = ""
    turn: str = ""

    def fits(self, asked: DemoRequest) -> bool:
        patterns = [self.words] if isinstance(self.words, str) else self.words
        return (
            self.dialect in ("", asked.dialect)
            and self.model in ("", asked.model)
            and self.turn in ("", "first" if asked.turn == 1 else "later")
            and all(_contains(pattern).search(asked.text) for pattern in patterns if pattern)
            and not (self.unless and _contains(self.unless).search(asked.text))
        )


_RULES = tuple(
    _Rule(**entry) for entry in tomllib.loads((DATA / "scenes.toml").read_text())["scenes"]
)
# Scenes that some models add to every answer.
_ADDED = {"tributary/demo-gateway": "openai/sources-and-media"}


def choose(asked: DemoRequest) -> Scene:
    """The scene that answers a request, in the manner that the question asks for. Titles always
    have the usual manner."""
    if _topic(asked.text) is not None:
        return Scene(steps=(*load("title"), Finish()))
    name = asked.scene or ("tool-answer" if asked.tool_results else "")
    if not name and not asked.runs_tools and _fitting_tools(asked):
        name = "tool"
    steps = load(name or next(rule.name for rule in _RULES if rule.fits(asked)))
    if not asked.tool_results and not asked.runs_tools:
        steps = _with_offered_tools(steps, asked)
    steps = _with_thought(steps, asked)
    if asked.previous_question and not name:
        steps = _with_memory(steps, asked)
    steps += load(_ADDED[asked.model]) if asked.model in _ADDED else ()
    return Scene(
        steps=steps if any(isinstance(step, Finish) for step in steps) else (*steps, Finish()),
        prompt_seconds=SLOW_SECONDS if _asks_for(asked, "slow(ly)?") else PROMPT_SECONDS,
        reloads_model=_asks_for(asked, "load(s|ed|ing)?"),
        ending=_ending(asked),
    )


def _asks_for(asked: DemoRequest, words: str) -> bool:
    return bool(_contains(words).search(asked.text))


def _ending(asked: DemoRequest) -> Ending:
    endings: Mapping[Ending, str] = {"cut": "cuts?", "error": "errors?", "preempted": "preempted"}
    return next((ending for ending, words in endings.items() if _asks_for(asked, words)), "whole")


def _with_offered_tools(steps: tuple[Step, ...], asked: DemoRequest) -> tuple[Step, ...]:
    """The steps with calls of the offered tools in place of their own, which the demo must not
    call; without any tool a text says so."""
    calls = [step for step in steps if isinstance(step, Call)]
    if not calls:
        return steps
    thoughts = tuple(step for step in steps if isinstance(step, Text) and step.kind == "reasoning")
    if not asked.tools:
        return (*thoughts, *load("tool-missing"))
    if _fitting_tools(asked):
        # The thoughts are about the scene's own tool.
        thoughts = ()
    return (*thoughts, *load("tool-offered"), *_offered_calls(asked, fails=len(calls) > 1))


def _offered_calls(asked: DemoRequest, *, fails: bool) -> list[Step]:
    wanted = [tool for tool in asked.tools if tool.name in asked.text.split()]
    wanted = wanted or _fitting_tools(asked)
    if not wanted:
        wanted = list(asked.tools[: 2 if _asks_for(asked, "both|two") else 1])
    found: list[Step] = [
        Call(tool=tool.name, arguments=arguments_for(tool.schema, asked.text)) for tool in wanted
    ]
    if fails:
        found.append(Call(tool=wanted[-1].name, error="broken", broken='{"month": "2026-10", "in'))
    return found


def _fitting_tools(asked: DemoRequest) -> list[OfferedTool]:
    """The offered tools of whose names the question has all words, such as *river* and *level*."""
    said = set(re.findall(r"[^\W_]+", asked.text.casefold()))
    words = {tool.name: re.findall(r"[^\W_]+", tool.name.casefold()) for tool in asked.tools}
    return [tool for tool in asked.tools if words[tool.name] and said.issuperset(words[tool.name])]


def _with_thought(steps: tuple[Step, ...], asked: DemoRequest) -> tuple[Step, ...]:
    """The steps with reasoning before them, if the model reasons and the scene has none; without
    any if the request disables it."""
    if asked.thinks is None:
        return tuple(s for s in steps if not isinstance(s, Text) or s.kind != "reasoning")
    has_thought = any(isinstance(step, Text) and step.kind == "reasoning" for step in steps)
    return (*load("thought"), *steps) if asked.thinks and not has_thought else steps


def _with_memory(steps: tuple[Step, ...], asked: DemoRequest) -> tuple[Step, ...]:
    """The steps; from the second turn on, the first message names the conversation that it
    continues."""
    return _with_first_message(
        steps,
        f"*This is turn {asked.turn} of our conversation; before that you asked: "
        f"“{_short(asked.previous_question, 80)}”*\n\n",
    )


def _with_first_message(steps: tuple[Step, ...], words: str) -> tuple[Step, ...]:
    found = list(steps)
    for position, step in enumerate(found):
        if isinstance(step, Text) and step.kind == "message":
            found[position] = replace(step, text=words + step.text)
            break
    return tuple(found)
