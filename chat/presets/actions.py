"""Creates, changes and deletes presets, and sets defaults. Callers have loaded each preset through `chat.access`, and
checked the server, the model and the tools as for a message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.utils.translation import gettext, gettext_noop, ngettext

from chat import access
from chat.conversations.preset_choice import Control
from chat.core.errors import ActionRefused
from chat.models import (
    AuditEvent,
    DefaultPreset,
    Preset,
    PresetVersion,
    Project,
    Team,
    Upstream,
    User,
)
from chat.presets.controls import to_stored
from chat.web.versions import ConflictWords, add_version

# Presets that one person, one project or one team may have.
MOST_PRESETS = 200
CONFLICT = ConflictWords(
    deleted=gettext_noop("This preset was deleted."),
    changed=gettext_noop(
        "This preset was changed meanwhile. What you entered is kept; look at the versions, then save again."
    ),
    changed_by=gettext_noop(
        "%(name)s changed this preset meanwhile. What you entered is kept; look at the versions, then save again."
    ),
)
DEFAULT_ICON = "sliders-horizontal"

Place = Team | Project | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The settings in a version of a preset. ``upstream`` is ``None`` only where a server was removed since, which
    ``server_name`` names. ``tools`` and ``skills`` are objects with ``id`` and ``name``."""

    upstream: Upstream | None
    model: str
    icon: str = DEFAULT_ICON
    server_name: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    system_prompt: str = ""
    tools: Sequence[Mapping[str, str]] = ()
    skills: Sequence[Mapping[str, str]] = ()
    starters: Sequence[str] = ()
    controls: Sequence[Control] = ()


def create_preset(user: User, place: Place, *, name: str, content: Content) -> PresetVersion:
    """A preset of the person, or of a team or a project in which they write. Raises ``ActionRefused``, also if there
    are too many."""
    of_place = access.fields_of_place(user, place)
    with transaction.atomic():
        if Preset.objects.filter(**of_place).count() >= MOST_PRESETS:
            words = ngettext(
                "There can be up to %(count)d preset. Delete some.",
                "There can be up to %(count)d presets. Delete some.",
                MOST_PRESETS,
            )
            raise ActionRefused(words % {"count": MOST_PRESETS})
        preset = Preset.objects.create(**of_place, name=name)
        version = _version(user, preset, content)
        add_version(version, known=0, words=CONFLICT)
        _record(user, "preset.created", preset)
    return version


def change_preset(user: User, preset: Preset, *, known: int, name: str, content: Content) -> None:
    """Sets the name, and stores the content as a new version if it differs from version ``known``, which the person has
    edited. Raises ``ActionRefused`` if there is a newer one by now."""
    with transaction.atomic():
        Preset.objects.filter(pk=preset.pk).update(name=name)
        add_version(_version(user, preset, content), known=known, words=CONFLICT)
        _record(user, "preset.changed", preset)


def use_version(user: User, preset: Preset, version: PresetVersion) -> None:
    """Makes an earlier version the newest one. Raises ``ActionRefused``."""
    copy = PresetVersion(preset=preset, **version.content(), author=user)
    newest = version.newest()
    with transaction.atomic():
        if add_version(copy, known=newest.number if newest else 0, words=CONFLICT):
            _record(user, "preset.changed", preset)


def delete_preset(user: User, preset: Preset) -> None:
    with transaction.atomic():
        _record(user, "preset.deleted", preset)
        preset.delete()


def set_default(user: User, place: Place, preset: Preset) -> None:
    """Begins new conversations of the person (without a place), or those of a team or in a project, with a preset. What
    others begin with they must be able to choose. Raises ``ActionRefused`` and ``PermissionDenied``."""
    of_place = _default_of(user, place)
    if place is not None and preset not in access.presets_of_place(place):
        raise ActionRefused(gettext("Choose a preset that everyone here can use."))
    with transaction.atomic():
        DefaultPreset.objects.update_or_create(**of_place, defaults={"preset": preset})
        _record_default(user, "preset.default", place, preset)


def remove_default(user: User, place: Place, preset: Preset) -> None:
    """Nothing happens if it is not the default there any more."""
    of_place = _default_of(user, place)
    with transaction.atomic():
        if DefaultPreset.objects.filter(**of_place, preset=preset).delete()[0]:
            _record_default(user, "preset.no_default", place, preset)


def _default_of(user: User, place: Place) -> dict[str, Any]:
    """The place of a default, as its field. Raises ``PermissionDenied``."""
    if place is None:
        return {"user": user}
    if not access.may_set_default(user, place):
        raise PermissionDenied(gettext("Only managers can set this default."))
    return {"project" if isinstance(place, Project) else "team": place}


def _record_default(user: User, verb: str, place: Place, preset: Preset) -> None:
    if place is not None:
        AuditEvent.objects.record(user, verb, target=place.name, name=preset.name)


def _version(user: User, preset: Preset, content: Content) -> PresetVersion:
    return PresetVersion(
        preset=preset,
        author=user,
        icon=content.icon,
        upstream=content.upstream,
        server_name=content.upstream.name if content.upstream else content.server_name,
        model=content.model,
        parameters=dict(content.parameters),
        system_prompt=content.system_prompt,
        tools=[dict(each) for each in content.tools],
        skills=[dict(each) for each in content.skills],
        starters=list(content.starters),
        controls=to_stored(content.controls),
    )


def _record(user: User, verb: str, preset: Preset) -> None:
    """Personal presets are nobody else's business."""
    team = preset.team or (preset.project.team if preset.project else None)
    if team is not None:
        AuditEvent.objects.record(user, verb, target=team.name, name=preset.name)
