"""The conversation history: a list to search and filter, and a transcript to read."""

from __future__ import annotations

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse

from chat.access import NOT_HERE
from chat.actions import history
from chat.admin.base import AdministratorsOnly, RecordsSearches, cell
from chat.admin.filters import DeletedFilter, ModelFilter, PersonFilter, StatusFilter
from chat.admin.people import count_of
from chat.admin.search import search
from chat.admin.transcript import read_page, turns_of
from chat.models import Conversation, Message, Run, RunStatus


def whole_number(text: str) -> int:
    """The number of a page out of an address; the first page for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 1


def object_key(text: str) -> int:
    """A row's key out of an address. Raises ``Http404``."""
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Http404(NOT_HERE)
    return int(text)


class ConversationAdmin(RecordsSearches, AdministratorsOnly):
    """Nothing can be added, changed or deleted here. Who opens what is not theirs leaves a row."""

    summary = "Search, filter and read what was written, and what came of it."
    list_display = (
        "title_cell",
        "owner_cell",
        "team_cell",
        "visibility",
        "turn_count",
        "last_model",
        "last_status",
        "updated_at",
        "state",
    )
    list_display_links = ("title_cell",)
    list_filter = (
        PersonFilter,
        ("team", admin.RelatedOnlyFieldListFilter),
        ModelFilter,
        StatusFilter,
        "updated_at",
        "visibility",
        DeletedFilter,
    )
    list_select_related = ("owner", "team")
    date_hierarchy = "updated_at"
    ordering = ("-updated_at", "-pk")
    # The names are only for the search field to appear: `get_search_results` does the work.
    search_fields = ("title",)
    search_help_text = "Person, title, or words of turns and answers. Searches are recorded."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Conversation]:
        last_run = Run.objects.filter(conversation=OuterRef("pk")).order_by("-pk")
        return (
            super()
            .get_queryset(request)
            .defer("system_prompt", "parameters")
            .annotate(
                turn_total=count_of(Message, "conversation"),
                last_run_model=Subquery(last_run.values("model")[:1]),
                last_run_status=Subquery(last_run.values("status")[:1]),
            )
        )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Conversation], search_term: str
    ) -> tuple[QuerySet[Conversation], bool]:
        return search(queryset, search_term.replace("\x00", "")), False

    @admin.display(description="title", ordering="title")
    def title_cell(self, conversation: Conversation) -> str:
        return cell(conversation.title) or "Untitled"

    @admin.display(description="owner", ordering="owner__name")
    def owner_cell(self, conversation: Conversation) -> str:
        return cell(conversation.owner)

    @admin.display(description="team", ordering="team__name")
    def team_cell(self, conversation: Conversation) -> str:
        return cell(conversation.team)

    @admin.display(description="turns", ordering="turn_total")
    def turn_count(self, conversation: Conversation) -> int:
        return conversation.turn_total  # type: ignore[attr-defined]

    @admin.display(description="last model", ordering="last_run_model")
    def last_model(self, conversation: Conversation) -> str:
        return cell(conversation.last_run_model or "–")  # type: ignore[attr-defined]

    @admin.display(description="last status", ordering="last_run_status")
    def last_status(self, conversation: Conversation) -> str:
        status = conversation.last_run_status  # type: ignore[attr-defined]
        return str(RunStatus(status).label) if status else "–"

    @admin.display(description="deleted", ordering="deleted_at")
    def state(self, conversation: Conversation) -> str:
        return f"{conversation.deleted_at:%Y-%m-%d}" if conversation.deleted_at else ""

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, object] | None = None,
    ) -> HttpResponse:
        """The transcript, in place of a form."""
        if object_id is None or not self.has_view_permission(request):
            raise PermissionDenied
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        conversation = self._conversation(object_id)
        page = whole_number(request.GET.get("page", ""))
        with history.reading(request.user, conversation, page=page) as is_recorded:
            rows = read_page(conversation, page)
        response = TemplateResponse(
            request,
            "admin/chat/conversation/transcript.html",
            {
                **self.admin_site.each_context(request),
                "opts": self.opts,
                "title": "Transcript",
                "conversation": conversation,
                "rows": rows,
                "turns": turns_of(rows),
                "is_recorded": is_recorded,
                **(extra_context or {}),
            },
        )
        response["Cache-Control"] = "no-store"
        return response

    def _conversation(self, object_id: str) -> Conversation:
        conversation = (
            Conversation.objects.select_related("owner", "team", "upstream")
            .filter(pk=object_key(object_id))
            .first()
        )
        if conversation is None:
            raise Http404(NOT_HERE)
        return conversation
