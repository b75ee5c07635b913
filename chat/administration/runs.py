"""Runs as their transcript shows them, and the processes that execute them."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.contrib import admin
from django.db.models import Count, Q, QuerySet
from django.http import Http404, HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from chat import access
from chat.access import NOT_HERE
from chat.administration.history import ErrorFilter, RunModelFilter
from chat.administration.transcript import BADGES, card_of, page_of
from chat.exports.html_form import run_part
from chat.exports.reading import read_messages
from chat.models import Conversation, Message, Run, Runner
from chat.models.run import LIVE_STATUSES
from chat.models.tree import tree_order
from chat.rendering.figures import count
from chat.rendering.messages import error_title
from chat.runs.segments import read_logs
from chat.web.admin import (
    AdministratorsOnly,
    ReadsConversations,
    cell,
    column,
    conversation_name,
    seconds,
    time_column,
)
from chat.web.components import badge


class RunAdmin(ReadsConversations):
    """The list has figures, no text. A run's page shows its answer."""

    summary = gettext_lazy("Requests to servers, with status, usage and errors.")
    icon = "activity"
    page_template = "admin/chat/run/run.html"
    list_display = (
        "conversation_cell",
        "status_cell",
        "person",
        "model_cell",
        "tokens",
        "duration",
        time_column("queued_at", gettext_lazy("Queued")),
    )
    list_filter = (
        "status",
        RunModelFilter,
        ("upstream", admin.RelatedOnlyFieldListFilter),
        ("requested_by", admin.RelatedOnlyFieldListFilter),
        ErrorFilter,
        "queued_at",
    )
    list_select_related = ("conversation", "requested_by", "upstream")
    search_fields = (
        "model",
        "error_kind",
        "conversation__public_id",
        "requested_by__name",
        "requested_by__email",
    )
    search_help_text = gettext_lazy("Search people, models, errors and conversation IDs.")
    ordering = ("-pk",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Run]:
        rows = (
            super()
            .get_queryset(request)
            .annotate(is_readable=access.is_readable(request.user, "conversation"))
        )
        return rows.defer("result", "system_prompt", "parameters", "notes", "error_message")

    @admin.display(description=gettext_lazy("Conversation"))
    def conversation_cell(self, run: Run) -> str:
        is_readable = run.is_readable  # type: ignore[attr-defined]
        return conversation_name(run.conversation, is_readable=is_readable)

    @admin.display(description=gettext_lazy("Requested by"), ordering="requested_by__name")
    def person(self, run: Run) -> str:
        return cell(run.requested_by) if run.requested_by else "–"

    @admin.display(description=gettext_lazy("Model and server"), ordering="model")
    def model_cell(self, run: Run) -> SafeString:
        return format_html("{}<small>{}</small>", cell(run.model), cell(run.upstream or "–"))

    @admin.display(description=gettext_lazy("Status"), ordering="status")
    def status_cell(self, run: Run) -> SafeString:
        state = badge(run.get_status_display(), BADGES[run.status])
        if not run.error_kind:
            return state
        return format_html("{}<small>{}</small>", state, error_title(run.error_kind))

    @admin.display(description=gettext_lazy("Tokens"), ordering="output_tokens")
    def tokens(self, run: Run) -> str:
        counts = (run.input_tokens, run.output_tokens)
        if counts == (None, None):
            return "–"
        read, written = ("?" if number is None else count(number) for number in counts)
        return gettext("%(input)s in, %(output)s out") % {"input": read, "output": written}

    @admin.display(description=gettext_lazy("Duration"))
    def duration(self, run: Run) -> str:
        return seconds(run.finished_at - run.queued_at if run.finished_at else None)

    def find(self, request: HttpRequest, key: int) -> Run:
        rows = Run.objects.select_related("conversation__owner").only(
            "public_id", "message", "conversation"
        )
        run = rows.filter(pk=key).first()
        if run is None:
            raise Http404(NOT_HERE)
        return run

    def conversation_of(self, record: Run) -> Conversation:
        return record.conversation

    def detail_of(self, request: HttpRequest, record: Run) -> dict[str, object]:
        return {"run": str(record.public_id)}

    def read(self, request: HttpRequest, record: Run) -> dict[str, object]:
        [message] = read_messages(record.conversation, [record.message_id])
        [run] = [each for each in message.runs.all() if each.pk == record.pk]
        log = read_logs([run.pk])[run.pk]
        number = _turn_number(record)
        return {
            "run": run,
            "card": lambda: card_of(run_part(run, log)),
            "turn_number": number,
            "turn_page": page_of(number),
        }


def _turn_number(run: Run) -> int:
    """The number of the run's answer in its transcript."""
    messages = Message.objects.filter(conversation_id=run.conversation_id).only("pk", "parent_id")
    return next(place.number for place in tree_order(messages) if place.pk == run.message_id)


class RunnerAdmin(AdministratorsOnly):
    """The processes that execute runs, and which of them are alive."""

    summary = gettext_lazy("Processes that execute runs.")
    icon = "cpu"
    list_display = (
        "host",
        "state",
        "live_runs",
        time_column("started_at", gettext_lazy("Started")),
        time_column("heartbeat_at", gettext_lazy("Last heartbeat")),
    )
    ordering = ("-heartbeat_at",)
    fieldsets = (
        (None, {"fields": ("host", "state", "live_runs")}),
        (
            gettext_lazy("Details"),
            {
                "classes": ("side",),
                "fields": (
                    time_column("started_at", gettext_lazy("Started")),
                    time_column("heartbeat_at", gettext_lazy("Last heartbeat")),
                    "pid",
                    "uuid",
                ),
            },
        ),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Runner]:
        live = Count("runs", filter=Q(runs__status__in=LIVE_STATUSES))
        return super().get_queryset(request).annotate(live_total=live)

    live_runs = column("live_total", gettext_lazy("Active runs"))

    @admin.display(description=gettext_lazy("State"))
    def state(self, runner: Runner) -> SafeString:
        lease = timedelta(seconds=settings.LEASE_SECONDS)
        if runner.heartbeat_at < timezone.now() - lease:
            return badge(gettext("Offline"))
        if runner.is_draining:
            return badge(gettext("Stopping"), "wait")
        return badge(gettext("Online"), "good")

    def title_of(self, row: Runner) -> str:
        return cell(row.host)
