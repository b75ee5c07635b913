"""Imports, changes and deletes skills. Callers have loaded each skill through `chat.access`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Sum
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop, ngettext

from chat import access
from chat.core.errors import ActionRefused, storage_errors
from chat.core.text import without_hidden
from chat.files.storage import check_storage
from chat.models import (
    AuditEvent,
    FileContent,
    NewContent,
    Project,
    Skill,
    SkillContent,
    SkillUpload,
    SkillVersion,
    Team,
    User,
)
from chat.skills.archive import MEGABYTE, FoundSkill, check_size, read_upload
from chat.skills.manifest import read_manifest
from chat.web.versions import ConflictWords, add_version

# Skills that one person, one project or one team may have.
MOST_SKILLS = 100
# Bytes of all versions of one skill. Versions share the files that are the same.
VERSIONS_BYTES = 50 * MEGABYTE
# An upload that nobody has confirmed goes with the next one of anybody.
UPLOAD_LASTS = timedelta(days=1)
CONFLICT = ConflictWords(
    deleted=gettext_noop("This skill was deleted."),
    changed=gettext_noop(
        "This skill was changed meanwhile. Your text is kept; look at the versions, then save again."
    ),
    changed_by=gettext_noop(
        "%(name)s changed this skill meanwhile. Your text is kept; look at the versions, then save again."
    ),
)

Place = Team | Project | None


# --- import ---------------------------------------------------------------------------------------


def store_upload(user: User, name: str, body: bytes) -> SkillUpload:
    """Keeps a file until the person has seen what is in it. It replaces an earlier one. Raises ``ActionRefused`` for a file
    without skills."""
    read_upload(body)
    shown = " ".join(without_hidden(name).split())[-255:]
    with storage_errors(), transaction.atomic():
        SkillUpload.objects.filter(created_at__lt=timezone.now() - UPLOAD_LASTS).delete()
        upload, _ = SkillUpload.objects.update_or_create(
            user=user, defaults={"name": shown, "body": body, "created_at": timezone.now()}
        )
    return upload


def cancel_upload(user: User) -> None:
    SkillUpload.objects.filter(user=user).delete()


def import_skills(user: User, place: Place, found: Sequence[FoundSkill]) -> list[Skill]:
    """Stores skills of the upload in a place, which then is done with: new ones, and new versions of those that have the
    same name there. Raises ``ActionRefused``."""
    of_place = access.fields_of_place(user, place)
    contents = [NewContent(body=body) for each in found for body in each.files.values()]
    if place is None:
        check_storage(user, contents)
    with (
        storage_errors(),
        FileContent.objects.writing(_once(contents)) as written,
        transaction.atomic(),
    ):
        FileContent.objects.keep_all(written)
        known = {each.name: each for each in Skill.objects.filter(**of_place)}
        added = [each for each in found if each.manifest.name not in known]
        if len(known) + len(added) > MOST_SKILLS:
            words = ngettext(
                "There can be up to %(count)d skill. Delete some.",
                "There can be up to %(count)d skills. Delete some.",
                MOST_SKILLS,
            )
            raise ActionRefused(words % {"count": MOST_SKILLS})
        skills = [_import(user, of_place, known.get(each.manifest.name), each) for each in found]
        cancel_upload(user)
    return skills


def _once(contents: Iterable[NewContent]) -> list[NewContent]:
    return list({each.sha256: each for each in contents}.values())


def _import(
    user: User, of_place: Mapping[str, Any], known: Skill | None, found: FoundSkill
) -> Skill:
    name = found.manifest.name
    skill = known or _created(of_place, name)
    newest = skill.versions.first()
    contents = {path: NewContent(body=body) for path, body in found.files.items()}
    version = SkillVersion(
        skill=skill,
        author=user,
        text=found.text,
        description=found.manifest.description,
        files=[
            {"path": path, "sha256": each.sha256, "size": len(each.body)}
            for path, each in sorted(contents.items())
        ],
    )
    is_new = add_version(version, known=newest.number if newest else 0, words=CONFLICT)
    SkillContent.objects.bulk_create(
        [
            SkillContent(skill=skill, content_id=digest)
            for digest in sorted({each.sha256 for each in contents.values()})
        ],
        ignore_conflicts=True,
    )
    _check_versions(skill)
    if known is None:
        _record(user, "skill.created", skill)
    elif is_new:
        _record(user, "skill.changed", skill)
    return skill


def _created(of_place: Mapping[str, Any], name: str) -> Skill:
    try:
        with transaction.atomic():
            return Skill.objects.create(**of_place, name=name)
    except IntegrityError:
        raise ActionRefused(_is_taken(name)) from None


def _is_taken(name: str) -> str:
    return gettext("There is another skill named “%(name)s” here.") % {"name": name}


def _check_versions(skill: Skill) -> None:
    stored = skill.contents.aggregate(total=Sum("content__size_bytes"))["total"] or 0
    if stored > VERSIONS_BYTES:
        words = gettext(
            "The versions of %(name)s together have more than %(most)d MB. Delete the skill, then import it again."
        )
        raise ActionRefused(words % {"name": skill.name, "most": VERSIONS_BYTES // MEGABYTE})


# --- change ---------------------------------------------------------------------------------------


def change_text(user: User, skill: Skill, *, known: int, text: str) -> None:
    """Stores another SKILL.md as a new version if it differs from version ``known``, which the person has edited; its files
    stay. The name may be another one. Raises ``ActionRefused``."""
    manifest = read_manifest(text)
    newest = skill.versions.first()
    files = newest.files if newest else []
    check_size(text, {each["path"]: each["size"] for each in files})
    version = SkillVersion(
        skill=skill, author=user, text=text, description=manifest.description, files=files
    )
    _change(user, skill, version, name=manifest.name, known=known)


def use_version(user: User, skill: Skill, version: SkillVersion) -> None:
    """Makes an earlier version the newest one. Raises ``ActionRefused``."""
    copy = SkillVersion(skill=skill, author=user, **version.content())
    newest = version.newest()
    name = read_manifest(version.text).name
    _change(user, skill, copy, name=name, known=newest.number if newest else 0)


def _change(user: User, skill: Skill, version: SkillVersion, *, name: str, known: int) -> None:
    with storage_errors(), transaction.atomic():
        if not add_version(version, known=known, words=CONFLICT):
            return
        try:
            with transaction.atomic():
                Skill.objects.filter(pk=skill.pk).update(name=name)
        except IntegrityError:
            raise ActionRefused(_is_taken(name)) from None
        skill.name = name
        _record(user, "skill.changed", skill)


def delete_skill(user: User, skill: Skill) -> None:
    with storage_errors(), transaction.atomic():
        _record(user, "skill.deleted", skill)
        skill.delete()


def _record(user: User, verb: str, skill: Skill) -> None:
    """Personal skills are nobody else's business."""
    team = skill.team or (skill.project.team if skill.project else None)
    if team is not None:
        AuditEvent.objects.record(user, verb, target=team.name, name=skill.name)
