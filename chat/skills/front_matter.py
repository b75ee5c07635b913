"""The YAML at the beginning of a SKILL.md, read strictly: mappings, lists and texts, and nothing that YAML could build of
them.

PyYAML only splits the text into events here. No object is constructed from a tag, no alias is expanded, and every scalar
stays the text that it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import yaml
from django.utils.translation import gettext
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from chat.core.errors import ActionRefused

# The exchange form's own fields together have less than 2 kB; metadata may be anything.
MOST_CHARACTERS = 16_000
MOST_EVENTS = 1_000
# A mapping, in it one such as ``metadata``, and in that perhaps a list.
MOST_LEVELS = 4

Value: TypeAlias = "str | list[Value] | dict[str, Value]"

_LINE = "---"


class NoFrontMatter(ActionRefused):
    """The text doesn't begin with lines between ``---``."""


def split(text: str) -> tuple[str, str]:
    """The YAML and the Markdown of a SKILL.md. Raises ``ActionRefused``."""
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[0].rstrip() != _LINE:
        raise NoFrontMatter(
            gettext("SKILL.md must begin with its name and description between two lines “---”.")
        )
    length = 0
    for number, line in enumerate(lines[1:], start=1):
        if line.rstrip() == _LINE:
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :])
        length += len(line) + 1
        if length > MOST_CHARACTERS:
            raise ActionRefused(gettext("The beginning of SKILL.md, up to “---”, is too long."))
    raise NoFrontMatter(gettext("The second line “---” is missing in SKILL.md."))


def read(text: str) -> dict[str, Value]:
    """The fields of a front matter. Raises ``ActionRefused`` with the line that is wrong."""
    try:
        return _Reader(text).mapping()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # The first line of SKILL.md is that with the hyphens.
        words = gettext("Line %(line)d of SKILL.md isn’t valid YAML.")
        raise ActionRefused(words % {"line": (mark.line if mark else 0) + 2}) from None
    except yaml.YAMLError:
        # A character that YAML doesn't allow.
        raise ActionRefused(gettext("The beginning of SKILL.md isn’t valid YAML.")) from None


class _Reader:
    def __init__(self, text: str) -> None:
        self._events = self._checked(text)

    def mapping(self) -> dict[str, Value]:
        event = next(self._events, None)
        if not isinstance(event, MappingStartEvent):
            raise ActionRefused(gettext("SKILL.md must begin with fields such as “name: …”."))
        found = self._mapping()
        if next(self._events, None) is not None:
            raise ActionRefused(gettext("SKILL.md must begin with fields such as “name: …”."))
        return found

    def _checked(self, text: str) -> Iterator[NodeEvent]:
        """The nodes of the text and the ends of collections, bounded in number and depth as they come."""
        level = documents = 0
        for count, event in enumerate(yaml.parse(text, Loader=yaml.SafeLoader)):
            if isinstance(event, MappingStartEvent | SequenceStartEvent):
                level += 1
            elif isinstance(event, MappingEndEvent | SequenceEndEvent):
                level -= 1
            documents += isinstance(event, DocumentStartEvent)
            if count > MOST_EVENTS or level > MOST_LEVELS or documents > 1:
                raise ActionRefused(gettext("The beginning of SKILL.md is too complex."))
            if isinstance(event, AliasEvent) or getattr(event, "anchor", None):
                raise ActionRefused(gettext("SKILL.md may not use YAML anchors and aliases."))
            if getattr(event, "tag", None) is not None:
                raise ActionRefused(gettext("SKILL.md may not use YAML tags."))
            if isinstance(event, NodeEvent | MappingEndEvent | SequenceEndEvent):
                yield event

    def _mapping(self) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for event in self._events:
            if isinstance(event, MappingEndEvent):
                break
            if not isinstance(event, ScalarEvent):
                raise ActionRefused(gettext("Names of fields in SKILL.md must be text."))
            if event.value in found:
                words = gettext("The field “%(name)s” is twice in SKILL.md.")
                raise ActionRefused(words % {"name": event.value[:64]})
            found[event.value] = self._value(next(self._events))
        return found

    def _value(self, event: object) -> Value:
        if isinstance(event, ScalarEvent):
            return str(event.value)
        if isinstance(event, MappingStartEvent):
            return self._mapping()
        found: list[Value] = []
        for each in self._events:
            if isinstance(each, SequenceEndEvent):
                break
            found.append(self._value(each))
        return found
