"""The start page of the administration: figures of today, and what needs attention."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, Q
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.translation import gettext, ngettext

from chat.administration.keys import key_state
from chat.administration.sentences import icon_of, marked_sentence, read_titles
from chat.health.report import HealthReport, report_now
from chat.models import AuditEvent, Message, Role, Run, Runner, RunStatus, Upstream, User
from chat.models.run import LIVE_STATUSES
from chat.servers.admin import has_failed

# A queue is normal for a while; then somebody should look.
LONG_QUEUE = timedelta(minutes=5)
# A server that fails most answers of a day, not one that failed once.
MANY_FAILURES = 3
RECENT_EVENTS = 8
LONGEST_WAITING = 8
FAILED = (RunStatus.FAILED, RunStatus.CUT, RunStatus.INTERRUPTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """A figure with its name; ``tone`` is that of a badge."""

    label: str
    value: int
    note: str = ""
    tone: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    """A problem that needs attention, and the page where it can be solved."""

    text: str
    tone: str
    url: str = ""
    action: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLoad:
    """A server with its live runs, and its finished and failed ones of today."""

    upstream: Upstream
    running: int
    queued: int
    answers: int
    failed: int


def overview(reader: User) -> dict[str, object]:
    """The context of the page, with the titles that its reader may read."""
    now = timezone.now()
    midnight = timezone.localtime(now).replace(hour=0, minute=0, second=0, microsecond=0)
    servers = list(_servers(midnight))
    health = report_now()
    events = list(AuditEvent.objects.select_related("actor", "subject")[:RECENT_EVENTS])
    titles = read_titles(events, reader)
    waiting = Run.objects.filter(status=RunStatus.QUEUED).order_by("queued_at", "pk")
    return {
        "stats": _stats(midnight, now),
        "concerns": [*_health_concerns(health), *_key_concerns(), *_server_concerns(servers, now)],
        "servers": [each for each in servers if each.answers or each.running or each.queued],
        "waiting": waiting.select_related("requested_by", "upstream").defer("result")[
            :LONGEST_WAITING
        ],
        "recent": [
            (event, icon_of(event.verb), marked_sentence(event, title=titles.get(event.pk, "")))
            for event in events
        ],
        "version": settings.VERSION,
    }


def _stats(midnight: datetime, now: datetime) -> list[Stat]:
    runs = Run.objects.aggregate(
        queued=Count("pk", filter=Q(status=RunStatus.QUEUED)),
        running=Count("pk", filter=Q(status=RunStatus.RUNNING)),
        answers=Count("pk", filter=Q(queued_at__gte=midnight)),
        failed=Count("pk", filter=Q(queued_at__gte=midnight, status__in=FAILED)),
    )
    authors = Message.objects.filter(role=Role.USER, created_at__gte=midnight, author__isnull=False)
    active = authors.values("author").distinct().count()
    people = User.objects.filter(is_active=True).count()
    runners = Runner.objects.filter(
        heartbeat_at__gte=now - timedelta(seconds=settings.LEASE_SECONDS)
    ).count()
    return [
        Stat(
            label=gettext("Queued now"),
            value=runs["queued"],
            tone="wait" if runs["queued"] else "",
            url=_runs_url(status__exact=RunStatus.QUEUED),
        ),
        Stat(
            label=gettext("Running now"),
            value=runs["running"],
            note=ngettext("%(count)d runner online", "%(count)d runners online", runners)
            % {"count": runners},
            url=_runs_url(status__exact=RunStatus.RUNNING),
        ),
        Stat(
            label=gettext("Failed today"),
            value=runs["failed"],
            note=ngettext("of %(count)d answer", "of %(count)d answers", runs["answers"])
            % {"count": runs["answers"]},
            tone="bad" if runs["failed"] else "",
            url=_runs_url(status__in=",".join(FAILED), queued_at__gte=midnight.isoformat()),
        ),
        Stat(
            label=gettext("Active users today"),
            value=active,
            note=ngettext("of %(count)d user", "of %(count)d users", people) % {"count": people},
            url=reverse("admin:chat_user_changelist"),
        ),
    ]


def _runs_url(**filters: object) -> str:
    return f"{reverse('admin:chat_run_changelist')}?{urlencode(filters)}"


def _servers(midnight: datetime) -> Iterator[ServerLoad]:
    live = Run.objects.filter(Q(status__in=LIVE_STATUSES) | Q(queued_at__gte=midnight))
    counts = {
        row["upstream"]: row
        for row in live.values("upstream").annotate(
            running=Count("pk", filter=Q(status=RunStatus.RUNNING)),
            queued=Count("pk", filter=Q(status=RunStatus.QUEUED)),
            answers=Count("pk", filter=Q(queued_at__gte=midnight)),
            failed=Count("pk", filter=Q(queued_at__gte=midnight, status__in=FAILED)),
        )
    }
    for upstream in Upstream.objects.order_by("-is_enabled", "name"):
        row = counts.get(upstream.pk, {})
        yield ServerLoad(
            upstream=upstream,
            **{name: row.get(name, 0) for name in ("running", "queued", "answers", "failed")},
        )


def _health_concerns(health: HealthReport) -> Iterator[Concern]:
    # Failures would keep this process from serving the page.
    for text in health.problems:
        yield Concern(
            text=text,
            tone="bad",
            url=reverse("admin:chat_runner_changelist"),
            action=gettext("Runners"),
        )


def _key_concerns() -> Iterator[Concern]:
    keys = key_state()
    if keys.problem:
        yield Concern(text=keys.problem, tone="bad")
    elif keys.unreadable:
        text = ngettext(
            "%(count)d stored credential can’t be decrypted with the current keys. Enter it again.",
            "%(count)d stored credentials can’t be decrypted with the current keys. "
            "Enter them again.",
            keys.unreadable,
        )
        yield Concern(
            text=text % {"count": keys.unreadable},
            tone="bad",
            url=reverse("servers"),
            action=gettext("Servers"),
        )


def _server_concerns(servers: Iterable[ServerLoad], now: datetime) -> Iterator[Concern]:
    servers = list(servers)
    if not any(each.upstream.is_enabled for each in servers):
        yield Concern(
            text=gettext("No servers are enabled, so nobody can get answers."),
            tone="bad",
            url=reverse("servers"),
            action=gettext("Servers"),
        )
    for each in servers:
        for text, tone in _problems_of(each):
            yield Concern(
                text=text,
                tone=tone,
                url=reverse("server", args=[each.upstream.public_id]),
                action=gettext("Open server"),
            )
    late = Run.objects.filter(status=RunStatus.QUEUED, queued_at__lt=now - LONG_QUEUE).count()
    if late:
        text = ngettext(
            "%(count)d answer has been queued for more than %(minutes)d minutes.",
            "%(count)d answers have been queued for more than %(minutes)d minutes.",
            late,
        )
        yield Concern(
            text=text % {"count": late, "minutes": LONG_QUEUE.total_seconds() // 60},
            tone="wait",
            url=_runs_url(status__exact=RunStatus.QUEUED),
            action=gettext("Runs"),
        )


def _problems_of(server: ServerLoad) -> Iterator[tuple[str, str]]:
    """Text and tone of each. A disabled server is mentioned, but is no reason to look further."""
    names = {"server": server.upstream.name}
    if not server.upstream.is_enabled:
        yield gettext("The server “%(server)s” is disabled.") % names, ""
        return
    if server.upstream.is_draining and not server.queued:
        yield gettext("The server “%(server)s” is paused.") % names, ""
    elif server.upstream.is_draining:
        text = ngettext(
            "The server “%(server)s” is paused, and %(count)d answer is queued.",
            "The server “%(server)s” is paused, and %(count)d answers are queued.",
            server.queued,
        )
        yield text % {**names, "count": server.queued}, "wait"
    if has_failed(server.upstream):
        yield gettext("The last test of the server “%(server)s” failed.") % names, "bad"
    if server.failed >= MANY_FAILURES and server.failed * 2 >= server.answers:
        text = gettext("The server “%(server)s” failed %(failed)d of %(answers)d answers today.")
        yield text % {**names, "failed": server.failed, "answers": server.answers}, "bad"
