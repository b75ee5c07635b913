"""A version of a preset as a text that people read and compare."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext

from chat.conversations.preset_choice import controls_of
from chat.dialects import DIALECTS
from chat.models import PresetVersion
from chat.presets.controls import in_words, lines_of


def text_of(version: PresetVersion) -> str:
    return "\n\n".join(_sections(version))


def _sections(version: PresetVersion) -> Iterator[str]:
    head = [
        f"{gettext('Model')}: {version.model}",
        f"{gettext('Server')}: {version.server}",
        f"{gettext('Icon')}: {version.icon}",
    ]
    yield "\n".join(head)
    if version.system_prompt:
        yield f"{gettext('System prompt')}:\n{version.system_prompt}"
    if version.parameters:
        labels = _labels(version)
        lines = [
            f"{labels.get(name, name)}: {in_words(value)}"
            for name, value in version.parameters.items()
        ]
        yield "\n".join([f"{gettext('Parameters')}:", *lines])
    if version.tools:
        names = "\n".join(each["name"] for each in version.tools)
        yield f"{gettext('Tools')}:\n{names}"
    if version.skills:
        names = "\n".join(each["name"] for each in version.skills)
        yield f"{gettext('Skills')}:\n{names}"
    if version.starters:
        yield "\n".join([f"{gettext('Suggested messages')}:", *version.starters])
    for control in controls_of(version.controls):
        yield f"{control.name}:\n{lines_of(control)}"


def _labels(version: PresetVersion) -> dict[str, str]:
    """The names of its parameters on screens, while its server is there."""
    dialect = DIALECTS.get(version.upstream.dialect) if version.upstream else None
    return {each.name: gettext(each.label) for each in dialect.parameters} if dialect else {}
