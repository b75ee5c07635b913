"""Sharing: participants and their roles, the visibility of a conversation, and taking one over.

Callers have loaded every object through `chat.access`. Whether the person may still manage the
conversation is checked here again, because a right can end between two requests.
"""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.utils.translation import gettext

from chat import access
from chat.conversations.actions.conversation import count_rearrangement, count_withdrawal
from chat.core import notify
from chat.core.errors import ActionRefused
from chat.models import (
    AuditEvent,
    ChangeKind,
    Conversation,
    ConversationChange,
    ConversationRole,
    Group,
    Participant,
    Project,
    Team,
    User,
    Visibility,
    visibilities,
)

# The limit for one conversation. More people are a group, or the team.
MOST_PARTICIPANTS = 200


# --- participants -------------------------------------------------------------------------------


def add_participant(
    user: User, conversation: Conversation, who: User | Group, role: str
) -> Participant:
    """Shares the conversation with a person or a group of its team. Somebody who takes part already gets
    the role."""
    role = ConversationRole(role)
    with transaction.atomic():
        access.check_may_manage(user, conversation)
        _check_may_join(conversation, who, role)
        named = {"group": who} if isinstance(who, Group) else {"person": who}
        rows = Participant.objects.filter(conversation=conversation)
        before = rows.filter(**named).first()
        if before is not None:
            before.conversation = conversation
            set_role(user, before, role)
            return before
        if rows.count() >= MOST_PARTICIPANTS:
            raise ActionRefused(gettext("Too many participants. Add a group instead."))
        participant = Participant.objects.create(
            conversation=conversation, role=role, added_by=user, **named
        )
        conversation.touch()
        _record(user, "conversation.participant_added", participant, role=role)
        _sign(user, ChangeKind.SHARED, participant, role=role)
    _publish(conversation)
    return participant


def _check_may_join(conversation: Conversation, who: User | Group, role: ConversationRole) -> None:
    if isinstance(who, Group):
        if who.team_id != conversation.team_id:
            raise ActionRefused(gettext("This group belongs to another team."))
        return
    if who.pk == conversation.owner_id:
        raise ActionRefused(gettext("The owner of a conversation always has access."))
    if access.membership_of(who, conversation.team_id) is None:
        raise ActionRefused(gettext("This person isn’t on the team of this conversation."))
    if role in _NOT_FOR_GUESTS and access.is_guest(who, conversation.team_id):
        raise ActionRefused(gettext("A guest can’t manage a conversation."))


_NOT_FOR_GUESTS = (ConversationRole.MANAGER,)


def set_role(user: User, participant: Participant, role: str) -> None:
    role = ConversationRole(role)
    conversation = participant.conversation
    with transaction.atomic():
        access.check_may_manage(user, conversation)
        rows = Participant.objects.select_for_update().filter(pk=participant.pk)
        current = rows.first()
        if current is None:
            raise ActionRefused(gettext("They no longer take part in this conversation."))
        if current.role == role:
            return
        if participant.person is not None:
            _check_may_join(conversation, participant.person, role)
        rows.update(role=role)
        conversation.touch_quietly()
        count_rearrangement(conversation)
        change = {"before": current.role, "after": role}
        _record(user, "conversation.participant_role_changed", participant, **change)
        _sign(user, ChangeKind.ROLE, participant, role=role)
    participant.role = role
    _publish(conversation)


def remove_participant(user: User, participant: Participant) -> None:
    """Ends what they have as a participant: managers remove others, and everybody may leave."""
    conversation = participant.conversation
    with transaction.atomic():
        if participant.person_id != user.pk:
            access.check_may_manage(user, conversation)
        if not Participant.objects.filter(pk=participant.pk).delete()[0]:
            raise ActionRefused(gettext("They no longer take part in this conversation."))
        conversation.touch_quietly()
        count_rearrangement(conversation)
        _record(user, "conversation.participant_removed", participant)
        if participant.person_id == user.pk:
            ConversationChange.objects.record(user, conversation, ChangeKind.LEFT)
        else:
            _sign(user, ChangeKind.REMOVED, participant)
    _publish(conversation)


def take_over(user: User, conversation: Conversation) -> None:
    """Makes an owner or admin of the team the manager of a conversation that nobody manages any more."""
    with transaction.atomic():
        # If two people take it over at once, the second sees that it has a manager.
        team = Team.objects.select_for_update().get(pk=conversation.team_id)
        if not access.may_take_over(user, team):
            raise PermissionDenied(str(access.ONLY_MANAGERS))
        if not access.unmanaged_conversations(team).filter(pk=conversation.pk).exists():
            raise ActionRefused(gettext("This conversation has a manager again."))
        Participant.objects.update_or_create(
            conversation=conversation,
            person=user,
            defaults={"role": ConversationRole.MANAGER, "added_by": user},
        )
        conversation.touch_quietly()
        count_rearrangement(conversation)
        AuditEvent.objects.record(
            user,
            "conversation.taken_over",
            subject=conversation.owner,
            target=str(conversation.public_id),
        )
        ConversationChange.objects.record(user, conversation, ChangeKind.TAKEN_OVER)
    _publish(conversation)


def _record(user: User, verb: str, participant: Participant, **detail: str) -> None:
    """The subject is the person; a group is named in the detail."""
    if participant.group is not None:
        detail["group"] = participant.group.name
    AuditEvent.objects.record(
        user,
        verb,
        subject=participant.person,
        target=str(participant.conversation.public_id),
        **detail,
    )


def _sign(user: User, kind: ChangeKind, participant: Participant, *, role: str = "") -> None:
    """The line about a participant, for the people of the conversation."""
    group = participant.group
    ConversationChange.objects.record(
        user,
        participant.conversation,
        kind,
        person=participant.person,
        name=group.name if group is not None else "",
        role=role,
    )


def _publish(conversation: Conversation) -> None:
    notify.publish_after_commit(notify.room_topic(conversation.public_id))


# --- visibility ---------------------------------------------------------------------------------


def set_visibility(
    user: User,
    conversation: Conversation,
    visibility: str,
    role: str = ConversationRole.WRITER,
) -> None:
    """Shares the conversation with the team, in which everyone has this role, or with the people of its
    project, or with nobody but its participants; connections without access are closed."""
    project = conversation.project
    if project is not None and visibility == conversation.shared_visibility:
        _check_may_share(user, conversation, project)
    with transaction.atomic():
        access.check_may_manage(user, conversation)
        # Somebody may have moved it meanwhile, which changes its readers.
        unmoved = Conversation.objects.filter(pk=conversation.pk, project=conversation.project_id)
        is_possible = visibility in visibilities(in_project=project is not None)
        changes = {"visibility": Visibility(visibility), "shared_role": ConversationRole(role)}
        if not is_possible or not unmoved.update(**changes):
            raise ActionRefused(gettext("This conversation was moved. Reload the page."))
        conversation.touch()
        if conversation.is_shared:
            count_withdrawal(conversation.team_id)
        AuditEvent.objects.record(
            user,
            "conversation.set_visibility",
            subject=conversation.owner,
            target=str(conversation.public_id),
            visibility=visibility,
            role=role,
        )
        team_role = {ConversationRole.READER: ChangeKind.TEAM_READS}
        kind = {
            Visibility.PRIVATE: ChangeKind.PRIVATE,
            Visibility.PROJECT: ChangeKind.PROJECT,
        }.get(visibility) or team_role.get(role, ChangeKind.TEAM_WRITES)
        ConversationChange.objects.record(user, conversation, kind)
    conversation.visibility, conversation.shared_role = visibility, role
    _publish(conversation)


def set_settings_shown(user: User, conversation: Conversation, *, are_shown: bool) -> None:
    """Shows the system prompts, parameters and tools to readers, too, or to writers only."""
    with transaction.atomic():
        access.check_may_manage(user, conversation)
        rows = Conversation.objects.filter(pk=conversation.pk, shows_settings=not are_shown)
        if not rows.update(shows_settings=are_shown):
            return
        conversation.touch_quietly()
        AuditEvent.objects.record(
            user,
            "conversation.settings_shown" if are_shown else "conversation.settings_hidden",
            subject=conversation.owner,
            target=str(conversation.public_id),
        )
        kind = ChangeKind.SETTINGS_SHOWN if are_shown else ChangeKind.SETTINGS_HIDDEN
        ConversationChange.objects.record(user, conversation, kind)
    conversation.shows_settings = are_shown
    _publish(conversation)


def _check_may_share(user: User, conversation: Conversation, project: Project) -> None:
    if access.may_write_in_project(user, project):
        return
    if conversation.owner_id == user.pk:
        text = gettext("You can’t share with %(project)s, because you can’t write in it.")
        raise ActionRefused(text % {"project": project.name})
    # Another manager may not know the project.
    raise ActionRefused(gettext("You can’t share with its project, because you can’t write in it."))
