"""SKILL.md of the exchange form (agentskills.io): what its fields say, and its instructions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.utils.translation import gettext

from chat.core.errors import ActionRefused
from chat.core.text import without_hidden
from chat.models.skill import SKILL_DESCRIPTION_LENGTH, SKILL_NAME_LENGTH
from chat.skills.front_matter import Value, read, split

FILE_NAME = "SKILL.md"
# About fifty thousand tokens, ten times what the exchange form recommends.
TEXT_LENGTH = 200_000
COMPATIBILITY_LENGTH = 500
_FACT_LENGTH = 1_000
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
# Facts that have places of their own on pages.
_KNOWN = ("name", "description", "license", "compatibility", "allowed-tools", "metadata")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """``facts``: the other fields by their names, as text for people. ``allowed_tools``: what the skill would like to be
    allowed to use, which allows nothing here."""

    name: str
    description: str
    body: str
    allowed_tools: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)


def read_manifest(text: str) -> Manifest:
    """Raises ``ActionRefused`` with a sentence about the field that is wrong."""
    if len(text) > TEXT_LENGTH:
        words = gettext("SKILL.md is too long: %(most)s characters are allowed.")
        raise ActionRefused(words % {"most": f"{TEXT_LENGTH:,}"})
    if "\x00" in text:
        raise ActionRefused(gettext("SKILL.md isn’t text."))
    front, body = split(text)
    fields = read(front)
    compatibility = _text_in(fields, "compatibility")
    if len(compatibility) > COMPATIBILITY_LENGTH:
        words = gettext("The compatibility in SKILL.md has more than %(most)d characters.")
        raise ActionRefused(words % {"most": COMPATIBILITY_LENGTH})
    metadata = fields.get("metadata")
    others = {name: value for name, value in fields.items() if name not in _KNOWN}
    if isinstance(metadata, dict):
        others |= metadata
    facts = {
        gettext("License"): _text_in(fields, "license"),
        gettext("Compatibility"): compatibility,
        **{_line(name): _line(_in_words(value)) for name, value in others.items()},
    }
    return Manifest(
        name=_name_in(fields),
        description=_description_in(fields),
        body=body,
        allowed_tools=_line(_in_words(fields.get("allowed-tools", ""))),
        facts={name: value for name, value in facts.items() if name and value},
    )


def _name_in(fields: Mapping[str, Value]) -> str:
    name = _text_in(fields, "name").strip()
    if not name:
        raise ActionRefused(gettext("SKILL.md has no name."))
    if len(name) > SKILL_NAME_LENGTH or not _NAME.fullmatch(name):
        words = gettext(
            "The name in SKILL.md must have up to %(most)d lowercase letters and digits, with single hyphens "
            "between them, such as “weekly-report”."
        )
        raise ActionRefused(words % {"most": SKILL_NAME_LENGTH})
    return name


def _description_in(fields: Mapping[str, Value]) -> str:
    description = " ".join(
        without_hidden(_text_in(fields, "description").replace("\n", " ")).split()
    )
    if not description:
        raise ActionRefused(gettext("SKILL.md has no description."))
    if len(description) > SKILL_DESCRIPTION_LENGTH:
        words = gettext("The description in SKILL.md has more than %(most)d characters.")
        raise ActionRefused(words % {"most": SKILL_DESCRIPTION_LENGTH})
    return description


def _text_in(fields: Mapping[str, Value], name: str) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str):
        words = gettext("The field “%(name)s” in SKILL.md must be text.")
        raise ActionRefused(words % {"name": name})
    return value


def _in_words(value: Value) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_in_words(each)}" for name, each in value.items())
    if isinstance(value, list):
        parts: Sequence[str] = [_in_words(each) for each in value]
        return ", ".join(parts)
    return value


def _line(text: str) -> str:
    return " ".join(without_hidden(text.replace("\n", " ")).split())[:_FACT_LENGTH]
