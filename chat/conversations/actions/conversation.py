"""Changes of a conversation as a whole: rename, delete, stop its answer, choose its tools."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext, ngettext

from chat import access
from chat.core import notify
from chat.core.errors import ActionRefused, storage_errors
from chat.core.text import without_hidden
from chat.models import (
    AuditEvent,
    ChangeKind,
    Conversation,
    ConversationChange,
    Run,
    RunStatus,
    SearchKind,
    Skill,
    Team,
    Tool,
    User,
)
from chat.models.run import LIVE_STATUSES
from chat.runs.outcomes import end_unstarted
from chat.runs.tool_calls import is_stoppable_run, stop_calls
from chat.search.sources import index_again

# No known API takes more tools in one request.
MOST_SWITCHED_ON = 128
# A request lists them with descriptions of up to a thousand characters.
MOST_SKILLS_ON = 20


def switch_tools(
    user: User,
    conversation: Conversation,
    tools: Iterable[Tool],
    *,
    skills: Collection[Skill] = (),
    shown_skills: Collection[Skill] = (),
) -> None:
    """Sets the tools that the conversation uses from the next message on, and which of the ``shown_skills``."""
    chosen = {tool.pk: tool for tool in tools}
    if any(tool.team_id != conversation.team_id for tool in chosen.values()):
        raise ActionRefused(gettext("Some of these tools belong to another team. Reload the page."))
    if len(chosen) > MOST_SWITCHED_ON:
        raise ActionRefused(
            ngettext(
                "You can enable at most %(count)d tool.",
                "You can enable at most %(count)d tools.",
                MOST_SWITCHED_ON,
            )
            % {"count": MOST_SWITCHED_ON}
        )
    with storage_errors(), transaction.atomic():
        conversation.touch()
        # A tool that was removed or turned off meanwhile is ignored, and so is one for other people, unless it is on.
        rows = Tool.objects.filter(pk__in=chosen).select_related("server")
        is_on = Q(conversations=conversation)
        usable = rows.filter(access.is_usable_by(user.pk) | is_on).distinct()
        conversation.tools.set([tool for tool in usable if tool.may_be_on])
        if skills or shown_skills:
            _switch_skills(conversation, skills, shown_skills)
        notify.publish_after_commit(notify.room_topic(conversation.public_id))


def _switch_skills(
    conversation: Conversation, skills: Collection[Skill], shown: Collection[Skill]
) -> None:
    conversation.skills.remove(*(skill for skill in shown if skill not in skills))
    conversation.skills.add(*skills)
    if skills and conversation.skills.count() > MOST_SKILLS_ON:
        words = ngettext(
            "You can switch on at most %(count)d skill.",
            "You can switch on at most %(count)d skills.",
            MOST_SKILLS_ON,
        )
        raise ActionRefused(words % {"count": MOST_SKILLS_ON})


def stop_run(user: User | None, run: Run) -> bool:
    """Requests the end of a run, and returns whether it was still live.

    An unclaimed run ends at once; a running one within a second, when its runner sees the request.
    If the run is over and another one continues its answer, that one is stopped. So are the calls of
    tools that the answer runs.
    """
    # Nearly always the run is executing; then a single statement is enough.
    if _ask_running(user, run) or _stop_waiting(user, run) or stop_calls(user, run):
        notify.publish_after_commit(notify.STOPS)
        notify.publish_after_commit(notify.room_topic(run.conversation.public_id))
        return True
    goes_on = Run.objects.filter(
        message_id=run.message_id, position__gt=run.position, status__in=LIVE_STATUSES
    ).first()
    return stop_run(user, goes_on) if goes_on is not None else False


def _ask_running(user: User | None, run: Run) -> int:
    running = Run.objects.filter(
        pk=run.pk, status=RunStatus.RUNNING, stop_requested_at__isnull=True
    )
    return running.update(stop_requested_at=timezone.now(), stop_requested_by=user)


def _stop_waiting(user: User | None, run: Run) -> bool:
    """Stops a run that was not executing; it may have been claimed meanwhile."""
    with transaction.atomic():
        asked = Run.objects.filter(
            pk=run.pk, status__in=LIVE_STATUSES, stop_requested_at__isnull=True
        ).update(stop_requested_at=timezone.now(), stop_requested_by=user)
        ended = end_unstarted(run)
    return bool(asked) or ended


def rename(conversation: Conversation, title: str, *, by: User | None = None) -> None:
    """Sets a person's title."""
    title = without_hidden(" ".join(title.split()))[:200].strip()
    if not title:
        raise ActionRefused(gettext("Enter a title."))
    with transaction.atomic():
        rows = Conversation.objects.filter(pk=conversation.pk)
        rows.update(title=title, has_automatic_title=False)
        conversation.touch()
        if by is not None and title != conversation.title:
            ConversationChange.objects.record(by, conversation, ChangeKind.RENAMED, name=title)
        conversation.title = title
        index_again(SearchKind.TITLE, conversation)
    notify.publish_after_commit(notify.room_topic(conversation.public_id))


def replace_automatic_title(conversation_pk: int, title: str) -> bool:
    """Replaces the title from the first message by a model's. Returns False if it was no longer
    there: a person's title stays. It is no news."""
    automatic = Conversation.objects.filter(
        pk=conversation_pk, has_automatic_title=True, deleted_at__isnull=True
    )
    with transaction.atomic():
        if not automatic.update(title=title, has_automatic_title=False):
            return False
        conversation = Conversation.objects.get(pk=conversation_pk)
        conversation.touch_quietly()
        count_rearrangement(conversation)
        index_again(SearchKind.TITLE, conversation)
    notify.publish_after_commit(notify.room_topic(conversation.public_id))
    return True


def count_withdrawal(team_id: int) -> None:
    """Counts the removal of shared conversations from a team's lists
    (`chat.conversations.list_version`)."""
    Team.objects.filter(pk=team_id).update(withdrawals=F("withdrawals") + 1)


def count_rearrangement(conversation: Conversation) -> None:
    """Counts a change of place in lists that leaves the conversation's time
    (`chat.conversations.list_version`). A private one is in the owner's list only."""
    if access.is_seen_by_others(conversation):
        teams = Team.objects.filter(pk=conversation.team_id)
        teams.update(rearrangements=F("rearrangements") + 1)
    else:
        owner = User.objects.filter(pk=conversation.owner_id)
        owner.update(pin_changes=F("pin_changes") + 1)


def delete(user: User | None, conversation: Conversation) -> None:
    """Moves the conversation to the trash and stops its runs. Without a user, it has expired."""
    with transaction.atomic():
        present = Conversation.objects.filter(pk=conversation.pk, deleted_at__isnull=True)
        if not present.update(deleted_at=timezone.now()):
            return
        conversation.touch_quietly()
        if access.is_seen_by_others(conversation):
            count_withdrawal(conversation.team_id)
        else:
            count_rearrangement(conversation)
        if user is not None:
            AuditEvent.objects.record(
                user,
                "conversation.delete",
                subject=conversation.owner,
                target=str(conversation.public_id),
            )
        for run in Run.objects.filter(is_stoppable_run(), conversation=conversation):
            stop_run(user, run)
    notify.publish_after_commit(notify.room_topic(conversation.public_id))
