"""Creates, changes and deletes prompts. Callers have loaded each prompt through `chat.access`."""

from __future__ import annotations

from collections.abc import Sequence

from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.utils.translation import gettext, ngettext

from chat import access
from chat.core.errors import ActionRefused
from chat.models import AuditEvent, Prompt, PromptVersion, Team, User
from chat.prompts.variables import Variable, to_stored

# Prompts that one person, or one team, may have.
MOST_PROMPTS = 500


def create_prompt(
    user: User, team: Team | None, *, name: str, text: str, variables: Sequence[Variable]
) -> Prompt:
    """A prompt of the person, or of a team. Raises ``ActionRefused``, also if there are too many."""
    if team is not None and not access.writable_teams(user).filter(pk=team.pk).exists():
        raise PermissionDenied(gettext("You have read-only access in this team."))
    owner = user if team is None else None
    with transaction.atomic():
        if Prompt.objects.filter(owner=owner, team=team).count() >= MOST_PROMPTS:
            words = ngettext(
                "There can be up to %(count)d prompt. Delete some.",
                "There can be up to %(count)d prompts. Delete some.",
                MOST_PROMPTS,
            )
            raise ActionRefused(words % {"count": MOST_PROMPTS})
        prompt = Prompt.objects.create(owner=owner, team=team, name=name)
        _add_version(user, prompt, 1, text, variables)
        _record(user, "prompt.created", prompt)
    return prompt


def change_prompt(
    user: User,
    prompt: Prompt,
    *,
    known: int,
    name: str,
    text: str,
    variables: Sequence[Variable],
) -> None:
    """Sets the name, and stores the text as a new version if it differs from version ``known``, which the person has
    edited. Raises ``ActionRefused`` if there is a newer one by now."""
    with transaction.atomic():
        newest = PromptVersion.objects.filter(prompt=prompt).select_related("author").first()
        if newest is None:
            raise ActionRefused(gettext("This prompt was deleted."))
        if newest.number != known:
            raise ActionRefused(_changed_by(newest))
        Prompt.objects.filter(pk=prompt.pk).update(name=name)
        if (newest.text, newest.variables) != (text, to_stored(variables)):
            _add_version(user, prompt, known + 1, text, variables)
        _record(user, "prompt.changed", prompt)


def use_version(user: User, prompt: Prompt, version: PromptVersion) -> None:
    """Makes the text of an earlier version the newest one. Raises ``ActionRefused``."""
    with transaction.atomic():
        newest = PromptVersion.objects.filter(prompt=prompt).first()
        assert newest is not None
        if (newest.text, newest.variables) == (version.text, version.variables):
            return
        _insert(
            PromptVersion(
                prompt=prompt,
                number=newest.number + 1,
                text=version.text,
                variables=version.variables,
                author=user,
            )
        )
        _record(user, "prompt.changed", prompt)


def delete_prompt(user: User, prompt: Prompt) -> None:
    with transaction.atomic():
        _record(user, "prompt.deleted", prompt)
        prompt.delete()


def _add_version(
    user: User, prompt: Prompt, number: int, text: str, variables: Sequence[Variable]
) -> None:
    stored = to_stored(variables)
    _insert(PromptVersion(prompt=prompt, number=number, text=text, variables=stored, author=user))


def _insert(version: PromptVersion) -> None:
    try:
        with transaction.atomic():
            version.save(force_insert=True)
    except IntegrityError:
        newest = (
            PromptVersion.objects.filter(prompt=version.prompt).select_related("author").first()
        )
        raise ActionRefused(
            _changed_by(newest) if newest else gettext("This prompt was deleted.")
        ) from None


def _changed_by(newest: PromptVersion) -> str:
    if newest.author is None:
        return gettext(
            "This prompt was changed meanwhile. Your text is kept; look at the versions, then save again."
        )
    words = gettext(
        "%(name)s changed this prompt meanwhile. Your text is kept; look at the versions, then save again."
    )
    return words % {"name": newest.author}


def _record(user: User, verb: str, prompt: Prompt) -> None:
    """Personal prompts are nobody else's business."""
    if prompt.team is not None:
        AuditEvent.objects.record(user, verb, target=prompt.name, team=prompt.team.name)
