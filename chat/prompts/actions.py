"""Creates, changes and deletes prompts. Callers have loaded each prompt through `chat.access`."""

from __future__ import annotations

from collections.abc import Sequence

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.utils.translation import gettext, gettext_noop, ngettext

from chat import access
from chat.core.errors import ActionRefused
from chat.models import AuditEvent, Prompt, PromptVersion, Team, User
from chat.prompts.variables import Variable, to_stored
from chat.web.versions import ConflictWords, add_version

# Prompts that one person, or one team, may have.
MOST_PROMPTS = 500
CONFLICT = ConflictWords(
    deleted=gettext_noop("This prompt was deleted."),
    changed=gettext_noop(
        "This prompt was changed meanwhile. Your text is kept; look at the versions, then save again."
    ),
    changed_by=gettext_noop(
        "%(name)s changed this prompt meanwhile. Your text is kept; look at the versions, then save again."
    ),
)


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
        stored = to_stored(variables)
        add_version(
            PromptVersion(prompt=prompt, text=text, variables=stored, author=user),
            known=0,
            words=CONFLICT,
        )
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
    version = PromptVersion(prompt=prompt, text=text, variables=to_stored(variables), author=user)
    with transaction.atomic():
        Prompt.objects.filter(pk=prompt.pk).update(name=name)
        add_version(version, known=known, words=CONFLICT)
        _record(user, "prompt.changed", prompt)


def use_version(user: User, prompt: Prompt, version: PromptVersion) -> None:
    """Makes the text of an earlier version the newest one. Raises ``ActionRefused``."""
    copy = PromptVersion(prompt=prompt, **version.content(), author=user)
    newest = version.newest()
    with transaction.atomic():
        if add_version(copy, known=newest.number if newest else 0, words=CONFLICT):
            _record(user, "prompt.changed", prompt)


def delete_prompt(user: User, prompt: Prompt) -> None:
    with transaction.atomic():
        _record(user, "prompt.deleted", prompt)
        prompt.delete()


def _record(user: User, verb: str, prompt: Prompt) -> None:
    """Personal prompts are nobody else's business."""
    if prompt.team is not None:
        AuditEvent.objects.record(user, verb, target=prompt.name, team=prompt.team.name)
