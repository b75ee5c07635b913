"""Changes of a conversation as a whole: rename, share, delete, stop its answer, choose its tools."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext, ngettext

from chat import access
from chat.core import notify
from chat.core.errors import ActionRefused, storage_errors
from chat.core.text import without_hidden
from chat.models import (
    AuditEvent,
    Conversation,
    Project,
    Run,
    RunStatus,
    SearchKind,
    Team,
    Tool,
    User,
    Visibility,
)
from chat.models.run import LIVE_STATUSES
from chat.runs.outcomes import end_unstarted
from chat.search.sources import index_again

# No known API takes more tools in one request.
MOST_SWITCHED_ON = 128


def switch_tools(user: User, conversation: Conversation, tools: Iterable[Tool]) -> None:
    """Sets the tools that the conversation uses from the next message on."""
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
        # A tool that was removed meanwhile is ignored.
        conversation.tools.set(Tool.objects.filter(pk__in=chosen))
        notify.publish_after_commit(notify.room_topic(conversation.public_id))


def stop_run(user: User | None, run: Run) -> bool:
    """Asks for the end of a run. Returns whether it was still live.

    A run that nobody has claimed ends here and now; a running one when its runner sees
    the request, within a second. Where the run is over and its answer has gone on meanwhile,
    the run that goes on is meant.
    """
    # Nearly always the run is executing; then a single statement is enough.
    if _ask_running(user, run) or _stop_waiting(user, run):
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


def rename(conversation: Conversation, title: str) -> None:
    title = without_hidden(" ".join(title.split()))[:200].strip()
    if not title:
        raise ActionRefused(gettext("Enter a title."))
    with transaction.atomic():
        Conversation.objects.filter(pk=conversation.pk).update(title=title)
        conversation.touch()
        conversation.title = title
        index_again(SearchKind.TITLE, conversation)
    notify.publish_after_commit(notify.room_topic(conversation.public_id))


def set_visibility(user: User, conversation: Conversation, visibility: str) -> None:
    """Shares the conversation, with the team or with the people of its project, or makes it private;
    connections without access are closed."""
    project = conversation.project
    if project is not None and visibility != Visibility.PRIVATE:
        _check_may_share(user, project)
    with transaction.atomic():
        # Somebody may have moved it meanwhile, and with that the other readers are others.
        unmoved = Conversation.objects.filter(pk=conversation.pk, project=conversation.project_id)
        is_possible = visibility in (Visibility.PRIVATE, conversation.shared_visibility)
        if not is_possible or not unmoved.update(visibility=Visibility(visibility)):
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
        )
    conversation.visibility = visibility
    notify.publish_after_commit(notify.room_topic(conversation.public_id))


def _check_may_share(user: User, project: Project) -> None:
    if not access.may_write_in_project(user, project):
        raise ActionRefused(
            gettext("You can’t share with %(project)s, because you can’t write in it.")
            % {"project": project.name}
        )


def count_withdrawal(team_id: int) -> None:
    """Counts that something that was shared leaves the lists of a team (`chat.live.list_version`)."""
    Team.objects.filter(pk=team_id).update(withdrawals=F("withdrawals") + 1)


def delete(user: User | None, conversation: Conversation) -> None:
    """Moves the conversation to the trash and stops its runs. Without a user, because its time is
    over, which nobody has to answer for."""
    with transaction.atomic():
        present = Conversation.objects.filter(pk=conversation.pk, deleted_at__isnull=True)
        if not present.update(deleted_at=timezone.now()):
            return
        conversation.touch()
        if conversation.is_shared:
            count_withdrawal(conversation.team_id)
        if user is not None:
            AuditEvent.objects.record(
                user,
                "conversation.delete",
                subject=conversation.owner,
                target=str(conversation.public_id),
            )
        for run in Run.objects.filter(conversation=conversation, status__in=LIVE_STATUSES):
            stop_run(user, run)
    notify.publish_after_commit(notify.room_topic(conversation.public_id))
