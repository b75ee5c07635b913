"""The requests for titles in the database: claimed within the limits of the server, ended once.

A request that a runner has claimed may have reached the server, so it is never sent again: a runner that
is gone leaves one that is given up after a while.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import timedelta

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from chat import access
from chat.conversations.actions.conversation import replace_automatic_title
from chat.core.encryption import DecryptionError
from chat.core.notify import QUEUED, publish_after_commit
from chat.dialects import DIALECTS
from chat.dialects.base import Dialect, Prompt, UserTurn
from chat.events import ErrorInfo, Result, decode_result
from chat.models import (
    Conversation,
    Run,
    TitleReason,
    TitleRequest,
    TitleSetting,
    TitleStatus,
    Upstream,
)
from chat.result import plain_text
from chat.runs.attempts import MESSAGE_LENGTH
from chat.runs.outcomes import tokens_of
from chat.runs.prompt import detail_of
from chat.runs.queue import has_spare_place
from chat.titles.wording import MOST_TOKENS, SYSTEM, request_text, title_in

logger = logging.getLogger(__name__)

# A request may take this long from the claim to the end. A model may have to be loaded first.
REQUEST_SECONDS = 60.0
# After this time a claimed request belongs to a runner that is gone.
LEASE = timedelta(seconds=REQUEST_SECONDS + 30)
# A title that comes later than this surprises more than it helps.
MOST_WAITING = timedelta(hours=1)
# Requests that are examined in one turn.
CANDIDATES = 20
# Dialects call the limit of an answer one of these.
_LIMITS = ("max_tokens", "max_output_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class TitleJob:
    """A claimed request, with all that is needed to send it."""

    request_pk: int
    conversation_pk: int
    upstream: Upstream
    dialect: Dialect
    prompt: Prompt
    key: str = field(repr=False)


def claim_due(limit: int) -> list[TitleJob]:
    """Claims up to ``limit`` requests, oldest first, as long as their server has places that no answer
    waits for. Requests that must not be sent are skipped."""
    give_up_lost()
    setting = TitleSetting.objects.select_related("upstream").first()
    jobs: list[TitleJob] = []
    for request in _queued()[:CANDIDATES]:
        if reason := why_skipped(request, setting):
            _end_queued(request, TitleStatus.SKIPPED, reason)
        elif len(jobs) == limit or not _claim(request, setting):
            break
        elif job := _job_of(request, setting):
            jobs.append(job)
    return jobs


def _queued() -> QuerySet[TitleRequest]:
    rows = TitleRequest.objects.filter(status=TitleStatus.QUEUED).order_by("queued_at", "pk")
    return rows.select_related("run__conversation", "run__message__parent").defer("run__result")


def why_skipped(request: TitleRequest, setting: TitleSetting | None) -> TitleReason | None:
    """Why a queued request is not sent, or ``None``. The only place that decides where a conversation may
    be sent for its title."""
    room, server = request.run.conversation, _server_of(setting)
    if setting is None or server is None or server.is_off(setting.model):
        return TitleReason.OFF
    if room.deleted_at is not None or _has_expired(room):
        return TitleReason.DELETED
    if not room.has_automatic_title:
        return TitleReason.RENAMED
    is_confidential = not room.is_shared or room.expires_at is not None
    if is_confidential and request.run.upstream_id != server.pk:
        return TitleReason.PRIVATE
    if not _is_allowed(request.run, server, setting.model):
        return TitleReason.OFF
    if request.queued_at < timezone.now() - MOST_WAITING:
        return TitleReason.BUSY
    return None


def _is_allowed(run: Run, server: Upstream, model: str) -> bool:
    """Returns whether the team may use the model that writes titles."""
    if not server.is_limited:
        return True
    grants = access.grants_at(server.pk, run.conversation.team_id, run.requested_by_id)
    return any(grant.allows(model) for grant in grants)


def _server_of(setting: TitleSetting | None) -> Upstream | None:
    server = setting.upstream if setting else None
    is_usable = server is not None and server.is_enabled and server.dialect in DIALECTS
    return server if is_usable else None


def _has_expired(room: Conversation) -> bool:
    return room.expires_at is not None and room.expires_at <= timezone.now()


def _claim(request: TitleRequest, setting: TitleSetting) -> bool:
    """Returns whether this process claimed it. The server's row is locked as by a claim of runs, so that both
    together keep its limit."""
    with transaction.atomic():
        rows = Upstream.objects.select_for_update(no_key=True).filter(pk=setting.upstream_id)
        server = rows.first()
        if server is None or not server.is_enabled or not has_spare_place(server):
            return False
        queued = TitleRequest.objects.filter(pk=request.pk, status=TitleStatus.QUEUED)
        claimed = queued.update(
            status=TitleStatus.RUNNING, upstream=server, model=setting.model, claimed_at=Now()
        )
    return claimed == 1


def _job_of(request: TitleRequest, setting: TitleSetting) -> TitleJob | None:
    """How to send a claimed request; ``None`` if that is not possible."""
    upstream = setting.upstream
    assert upstream is not None
    dialect = DIALECTS[upstream.dialect]
    try:
        key, options = upstream.open_key(), upstream.all_options()
    except DecryptionError:
        _end_running(request.pk, TitleStatus.FAILED, reason=TitleReason.LOCKED)
        return None
    run = request.run
    question = run.message.parent.text if run.message.parent else ""
    result = Run.objects.values_list("result", flat=True).get(pk=run.pk)
    answer = plain_text(decode_result(result)) if result else ""
    limits = (each.name for each in dialect.parameters_for(options) if each.name in _LIMITS)
    return TitleJob(
        request_pk=request.pk,
        conversation_pk=run.conversation_id,
        upstream=upstream,
        dialect=dialect,
        prompt=Prompt(
            model=setting.model,
            turns=(UserTurn.of(request_text(question, answer)),),
            system=SYSTEM,
            parameters=dict.fromkeys(limits, MOST_TOKENS),
            options=options,
            model_detail=detail_of(upstream, setting.model),
        ),
        key=key,
    )


# --- endings ------------------------------------------------------------------------------------


def store_result(job: TitleJob, result: Result) -> None:
    """Ends a request with what the server sent, and sets the title where it is still the automatic one."""
    title = title_in(plain_text(result))
    columns: dict[str, object] = {"title": title, **tokens_of(result)}
    if not title:
        _end_running(job.request_pk, TitleStatus.FAILED, reason=TitleReason.EMPTY, **columns)
        return
    with transaction.atomic():
        if not _end_running(job.request_pk, TitleStatus.DONE, **columns):
            return
        if not replace_automatic_title(job.conversation_pk, title):
            TitleRequest.objects.filter(pk=job.request_pk).update(
                status=TitleStatus.SKIPPED, reason=TitleReason.RENAMED
            )


def store_error(job: TitleJob, error: ErrorInfo, result: Result | None = None) -> None:
    _end_running(
        job.request_pk,
        TitleStatus.FAILED,
        error_kind=error.kind,
        error_message=error.message[:MESSAGE_LENGTH],
        **(tokens_of(result) if result else {}),
    )


def _end_running(request_pk: int, status: TitleStatus, **columns: object) -> int:
    """Returns 0 if the request was given up meanwhile. Its place at the server is free for an answer."""
    running = TitleRequest.objects.filter(pk=request_pk, status=TitleStatus.RUNNING)
    ended = running.update(status=status, finished_at=Now(), **columns)
    logger.info("title.ended request=%d status=%s", request_pk, status)
    publish_after_commit(QUEUED)
    return ended


def _end_queued(request: TitleRequest, status: TitleStatus, reason: TitleReason) -> None:
    queued = TitleRequest.objects.filter(pk=request.pk, status=TitleStatus.QUEUED)
    queued.update(status=status, reason=reason, finished_at=Now())


def give_up(job: TitleJob) -> None:
    """The runner is shutting down."""
    _end_running(job.request_pk, TitleStatus.SKIPPED, reason=TitleReason.LOST)


def give_up_lost(*, all_are_lost: bool = False) -> None:
    """Ends the requests of runners that are gone. ``all_are_lost``: there is no other runner than the one
    that begins now."""
    running = TitleRequest.objects.filter(status=TitleStatus.RUNNING)
    lost = running if all_are_lost else running.filter(claimed_at__lt=Now() - LEASE)
    if count := lost.update(status=TitleStatus.SKIPPED, reason=TitleReason.LOST, finished_at=Now()):
        logger.warning("title.lost count=%d", count)
        publish_after_commit(QUEUED)
