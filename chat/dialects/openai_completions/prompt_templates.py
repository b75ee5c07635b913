"""A conversation as one prompt, for servers that continue a text instead of answering messages."""

import re
import tomllib
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from chat.dialects.base import AssistantTurn, Turn
from chat.dialects.history import NO_ANSWER, answer_text, picture_names, replies_text
from chat.dialects.parameters import FOLDER, Values

Sides = list[tuple[str, str]]


class PromptTemplate(Struct, frozen=True, kw_only=True):
    """The texts around the turns. ``{text}`` is replaced by the text of a turn; in ``first_user``,
    the first message where the system prompt has no place of its own, ``{system}`` by that. Nothing
    else is replaced, and placeholders in the text of a turn are not."""

    begin: str = ""
    system: str = ""
    first_user: str = ""
    user: str
    assistant: str
    # The beginning of the answer.
    answer: str = ""
    stops: tuple[str, ...] = ()


TEMPLATES: Mapping[str, PromptTemplate] = msgspec.convert(
    tomllib.loads((FOLDER / "openai_completions/templates.toml").read_text()),
    dict[str, PromptTemplate],
)
DEFAULT = "plain"

# --- custom templates -----------------------------------------------------------------

_PARTS = ("begin", "system", "first user", "user", "assistant", "answer", "stop")
_PART_NAME = re.compile(rf"\[({'|'.join(_PARTS)})\][ \t]*\Z")
_NOT_USABLE = (
    "The server’s custom prompt template lacks {missing}; the template " + DEFAULT + " was used."
)


def read_template(text: str) -> PromptTemplate | None:
    """A template as a person writes it, or ``None`` if a required part has no ``{text}``."""
    parts: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        name = _PART_NAME.match(line)
        if name:
            lines = parts.setdefault(name[1], [])
        else:
            lines.append(line)
    whole = {name: "\n".join(content) for name, content in parts.items()}
    if any("{text}" not in whole.get(name, "") for name in ("user", "assistant")):
        return None
    return PromptTemplate(
        begin=whole.get("begin", ""),
        system=_if_it_has("{text}", whole.get("system", "")),
        first_user=_if_it_has("{system}", whole.get("first user", "")),
        user=whole["user"],
        assistant=whole["assistant"],
        answer=whole.get("answer", ""),
        stops=tuple(line for line in parts.get("stop", ()) if line),
    )


def _if_it_has(placeholder: str, part: str) -> str:
    return part if placeholder in part else ""


def template_of(options: Values) -> tuple[PromptTemplate, list[str]]:
    """The template that the options choose, and a note if a custom one cannot be used."""
    name = str(options["prompt_template"])
    if name != "custom":
        return TEMPLATES[name], []
    template = read_template(str(options.get("custom_template") or ""))
    if template is not None:
        return template, []
    missing = "a part [user] or [assistant] with {text} in it"
    return TEMPLATES[DEFAULT], [_NOT_USABLE.replace("{missing}", missing)]


# --- the prompt -------------------------------------------------------------------------


def render(template: PromptTemplate, turns: Sequence[Turn], *, system: str = "") -> str:
    """The prompt. An answer that is continued is left open at its end."""
    guard = _Guard(template)
    sides = [(role, guard(text)) for role, text in _sides(turns)]
    begun = sides.pop()[1] if sides and sides[-1][0] == "assistant" else ""
    written = [template.begin]
    system = guard(system)
    if system and template.system and not template.first_user:
        written.append(_fill(template.system, text=system))
        system = ""
    for role, text in sides:
        if role == "assistant":
            written.append(_fill(template.assistant, text=text))
            continue
        written.append(_user(template, text, system))
        system = ""
    if system:
        # No user message contains it.
        written.append(_fill(template.user, text=system))
    return "".join([*written, template.answer, "" if begun == NO_ANSWER else begun])


def _user(template: PromptTemplate, text: str, system: str) -> str:
    if not system:
        return _fill(template.user, text=text)
    if template.first_user:
        return _fill(template.first_user, text=text, system=system)
    return _fill(template.user, text=f"{system}\n\n{text}")


def _sides(turns: Sequence[Turn]) -> Sides:
    """The turns by role; adjacent turns of one role become one."""
    sides: Sides = []
    for turn, names in picture_names(turns):
        if isinstance(turn, AssistantTurn):
            _say(sides, "assistant", answer_text(turn.result))
            _say(sides, "user", replies_text(turn))
            continue
        _say(sides, "user", "\n".join(filter(None, [turn.text, *names])) or NO_ANSWER)
    return sides


def _say(sides: Sides, role: str, text: str) -> None:
    if not text:
        return
    if not sides or sides[-1][0] != role:
        sides.append((role, text))
        return
    earlier = sides.pop()[1]
    sides.append((role, "\n\n".join(said for said in (earlier, text) if said != NO_ANSWER) or text))


_PLACEHOLDER = re.compile(r"\{(text|system)\}")


def _fill(part: str, **words: str) -> str:
    """Fills the part in one pass, so that placeholders in a user's text are not replaced."""
    return _PLACEHOLDER.sub(lambda match: words.get(match[1], match[0]), part)


# --- text must not end its turn ---------------------------------------------------------------

# Marks such as <|im_end|>, </s>, [INST] are one token for the model, also in a text of a person. DeepSeek's
# marks have a full-width bar.
_MODERN_MARK = r"<\|[^<>|\n]{1,40}\|>|<｜[^<>｜\n]{1,40}｜>"
_MARK = re.compile(_MODERN_MARK + r"|</?[a-z_]{1,20}>|\[/?[A-Z_]{2,20}\]")


class _Guard:
    """Prevents the text of a turn from ending it: marks of the template get a space after their
    first character, and lines that look like the start of a turn get a space in front."""

    def __init__(self, template: PromptTemplate) -> None:
        parts = (
            *(template.begin, template.system, template.first_user, template.user),
            *(template.assistant, template.answer, *template.stops),
        )
        marks = {mark for part in parts for mark in _MARK.findall(part)}
        self._mark = re.compile("|".join([_MODERN_MARK, *map(re.escape, sorted(marks))]))
        labels = {_label(part) for part in (template.user, template.assistant)}
        labels |= {stop.strip() for stop in template.stops if not _MARK.search(stop)}
        words = "|".join(re.escape(label) for label in sorted(labels) if label)
        self._label = re.compile(rf"^(?={words})", re.MULTILINE) if words else None

    def __call__(self, text: str) -> str:
        text = self._mark.sub(lambda match: f"{match[0][0]} {match[0][1:]}", text)
        return self._label.sub(" ", text) if self._label else text


def _label(part: str) -> str:
    """The start of a turn, if it is a word and not a mark."""
    before = part.partition("{text}")[0].strip()
    return "" if _MARK.search(before) else before
