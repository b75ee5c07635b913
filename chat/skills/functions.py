"""The functions by which a model loads skills: their definitions, and what they answer.

The names and descriptions of the skills stand in a definition; the instructions and files are loaded when the model asks
for them. Models read everything here, so it is in English, whatever a person's language.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec

from chat import access
from chat.core.errors import ActionRefused, FilesUnavailable
from chat.core.prepared import Prepared
from chat.dialects.base import ToolDefinition
from chat.events import JsonObject
from chat.models import Conversation, FileContent, SkillVersion, User
from chat.result import own_functions
from chat.result.own_functions import SKILLS, FunctionRefused
from chat.runs.offered_tools import list_of
from chat.skills.front_matter import split
from chat.skills.manifest import FILE_NAME

LOAD, READ = "load_skill", "read_skill_file"
_NAMES = (LOAD, READ)
# In front of the names where the conversation has a tool with one of them.
PREFIX = "conversation_"
# Characters of one answer: instructions are recommended to have up to five thousand tokens, and few have ten thousand.
ANSWER_CHARACTERS = 40_000
# A longer line counts as several.
LINE_CHARACTERS = 2_000

_LOAD = (
    "Loads the instructions of a skill of this conversation. When a task fits the description of a skill, load the skill "
    "before you begin, and follow its instructions."
)
_READ = (
    "Reads a text file of a skill, such as one that its instructions refer to. A long text comes in several answers; each "
    "says how to go on. Scripts can only be read: nothing runs them."
)


def definitions_for(
    conversation: Conversation, user: User | None, taken: Collection[str]
) -> list[JsonObject]:
    """The functions for an answer (`ToolDefinition`), if skills are switched on that the person may use. ``taken`` are the
    names of its other tools. One statement."""
    if user is None:
        return []
    # The first of several with one name is the one that is loaded.
    skills = dict(reversed(_names.all(room=conversation.pk, user=user.pk)))
    if not skills:
        return []
    entries = sorted(skills.items())
    name: JsonObject = {"type": "string", "enum": [each for each, _ in entries]}
    found = [
        ToolDefinition(
            name=own_functions.name_for(LOAD, _NAMES, taken, PREFIX),
            description=f"{_LOAD}\n\n{list_of('The skills:', entries, rest='see the names')}",
            schema={"type": "object", "properties": {"name": name}, "required": ["name"]},
            feature=SKILLS,
        ),
        ToolDefinition(
            name=own_functions.name_for(READ, _NAMES, taken, PREFIX),
            description=_READ,
            schema={
                "type": "object",
                "properties": {
                    "name": {**name, "description": "The name of the skill"},
                    "path": {"type": "string", "description": "The path of the file in the skill"},
                    "from_line": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "The first line to read",
                    },
                },
                "required": ["name", "path"],
            },
            feature=SKILLS,
        ),
    ]
    return [msgspec.to_builtins(each) for each in found]


_names: Prepared[Any] = Prepared(
    lambda room, user: access.newest_skill_versions(
        access.visible_skills(user).filter(conversations=room)
    ).values_list("skill__name", "description")
)


def enabled_skills(conversation: Conversation, person: User | None) -> Sequence[SkillVersion]:
    """The newest versions of the skills of a conversation that the person may use now."""
    if person is None:
        return []
    skills = access.visible_skills(person).filter(conversations=conversation)
    return list(access.newest_skill_versions(skills))


# --- the answers ----------------------------------------------------------------------------------


def answer(name: str, arguments: JsonObject, skills: Sequence[SkillVersion]) -> str:
    """The result of a call of the function that the model has under this name. Raises ``FunctionRefused``."""
    function = name.removeprefix(PREFIX)
    read = f"{PREFIX if function != name else ''}{READ}"
    skill = _named(arguments.get("name"), skills)
    if function == LOAD:
        return _load(skill, read)
    if function == READ:
        return _read(skill, arguments, read)
    raise FunctionRefused("There is no such tool.")


def _named(given: object, skills: Sequence[SkillVersion]) -> SkillVersion:
    wanted = " ".join(str(given or "").split())
    for each in skills:
        if each.skill.name == wanted:
            return each
    names = ", ".join(dict.fromkeys(each.skill.name for each in skills)) or "none"
    raise FunctionRefused(
        f"The skill “{wanted[:64]}” isn’t available: it was deleted or switched off, or the person you answer may not use "
        f"it. Available skills: {names}"
    )


def _load(version: SkillVersion, read: str) -> str:
    """``read``: the name of the other function, which reads on."""
    head = f"[Skill: {version.skill.name}]"
    try:
        _, body = split(version.text)
    except ActionRefused:
        # Checked when it was stored.
        body = version.text
    pieces = [head]
    if body.strip():
        # Lines count from the beginning of the file, for the calls that go on.
        first = sum(1 for _ in _lines(version.text[: len(version.text) - len(body)]))
        pieces.extend(_lines_from(version.text, first, _more(read, version, FILE_NAME)))
    if version.files:
        files = "\n".join(f"- {each['path']} ({each['size']:,} bytes)" for each in version.files)
        pieces.append(
            f"[Files of this skill, which {read} reads. Scripts can only be read: nothing runs them.]\n{files}"
        )
    return "\n".join(pieces)


def _read(version: SkillVersion, arguments: JsonObject, read: str) -> str:
    path = str(arguments.get("path") or "").strip().removeprefix("./").lstrip("/")
    path = path.removeprefix(f"{version.skill.name}/")
    first = _line_number(arguments.get("from_line"))
    text = version.text if path == FILE_NAME else _text_of(version, path)
    head = f"[Skill: {version.skill.name}, file: {path}]"
    return "\n".join([head, *_lines_from(text, first, _more(read, version, path))])


def _text_of(version: SkillVersion, path: str) -> str:
    entry = next((each for each in version.files if each["path"] == path), None)
    if entry is None:
        paths = "\n".join(f"- {each}" for each in (FILE_NAME, *(f["path"] for f in version.files)))
        raise FunctionRefused(f"The skill has no file “{path[:200]}”. Its files:\n{paths}")
    try:
        body = file_body(entry["sha256"])
    except FilesUnavailable:
        raise FunctionRefused("The file can’t be read at the moment.") from None
    text = as_text(body)
    if text is None:
        raise FunctionRefused(f"{path} isn’t text ({len(body):,} bytes), so it can’t be read.")
    return text


def file_body(sha256: str) -> bytes:
    """Raises ``FilesUnavailable``."""
    content = FileContent.objects.filter(pk=sha256).first()
    if content is None:
        raise FilesUnavailable
    return content.read()


def as_text(body: bytes) -> str | None:
    """``None`` for bytes that are no text."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else text


def _more(read: str, version: SkillVersion, path: str) -> str:
    return f'[More follows: call {read} with name="{version.skill.name}", path="{path}", from_line='


def _lines_from(text: str, first: int, more: str) -> Iterator[str]:
    """The lines of a text from a number on, as many as fit, and how to go on (``more``, which the number follows)."""
    left = ANSWER_CHARACTERS
    for number, line in enumerate(_lines(text), start=1):
        if number < first:
            continue
        if len(line) > left:
            yield f"{more}{number}]"
            return
        yield line
        left -= len(line) + 1


def _lines(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        for start in range(0, max(1, len(line)), LINE_CHARACTERS):
            yield line[start : start + LINE_CHARACTERS]


def _line_number(value: object) -> int:
    """Some models write numbers as text."""
    if value is None or value == "":
        return 1
    try:
        return max(1, int(float(str(value))))
    except (ValueError, OverflowError):
        raise FunctionRefused("from_line must be a whole number.") from None
