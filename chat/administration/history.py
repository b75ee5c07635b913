"""The conversation history of the administration: list, filters, search."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from django.contrib import admin
from django.contrib.admin.views.main import SEARCH_VAR
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from chat import access
from chat.access import NOT_HERE
from chat.administration.transcript import BADGES, read_page, turns_of
from chat.core.text import as_uuid
from chat.models import Conversation, Message, Run, RunStatus, User, Visibility
from chat.rendering.messages import error_title
from chat.search.find import with_words
from chat.web.admin import (
    ReadsConversations,
    cell,
    column,
    conversation_name,
    count_of,
    searched_words,
    whole_number,
)
from chat.web.components import badge
from chat.web.tags import when

# A longer list does not help; the search field finds the rest.
CHOICE_LIMIT = 200

VISIBILITY_ICONS = {
    Visibility.PRIVATE: "lock",
    Visibility.TEAM: "users",
    Visibility.PROJECT: "folder",
}
Choices = Iterable[tuple[object, str]]


class ExactFilter(admin.SimpleListFilter):
    """A filter whose value must be one of its choices, whatever is in the address."""

    def choose(self, request: HttpRequest) -> Choices:
        raise NotImplementedError

    def narrow(self, rows: QuerySet, value: str) -> QuerySet:
        raise NotImplementedError

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin) -> list[tuple[str, str]]:
        return [(str(value), label) for value, label in self.choose(request)]

    def queryset(self, request: HttpRequest, rows: QuerySet) -> QuerySet:
        value = self.value()
        if value is None:
            return rows
        if value not in {str(key) for key, _ in self.lookup_choices}:
            return rows.none()
        return self.narrow(rows, value)


class PersonFilter(ExactFilter):
    """The person who created the conversation, or wrote in it."""

    title = gettext_lazy("Person")
    parameter_name = "person"

    def choose(self, request: HttpRequest) -> Choices:
        owns = Exists(Conversation.objects.filter(owner=OuterRef("pk")))
        writes = Exists(Message.objects.filter(author=OuterRef("pk")))
        people = User.objects.filter(Q(owns) | Q(writes)).order_by("name", "pk")
        for pk, name, email in people.values_list("pk", "name", "email")[:CHOICE_LIMIT]:
            yield pk, f"{name} ({email})" if name else email

    def narrow(self, rows: QuerySet, value: str) -> QuerySet:
        wrote = Message.objects.filter(conversation=OuterRef("pk"), author_id=value)
        return rows.filter(Q(owner_id=value) | Exists(wrote))


class ModelFilter(ExactFilter):
    """A model that answered in the conversation."""

    title = gettext_lazy("Model")
    parameter_name = "model"

    def choose(self, request: HttpRequest) -> Choices:
        names = Run.objects.order_by("model").values_list("model", flat=True).distinct()
        return [(name, name[:100]) for name in names[:CHOICE_LIMIT] if name]

    def narrow(self, rows: QuerySet, value: str) -> QuerySet:
        return rows.filter(Exists(Run.objects.filter(conversation=OuterRef("pk"), model=value)))


class RunModelFilter(ModelFilter):
    def narrow(self, rows: QuerySet, value: str) -> QuerySet:
        return rows.filter(model=value)


class ErrorFilter(ExactFilter):
    """The kind of error, in words."""

    title = gettext_lazy("Error")
    parameter_name = "error"

    def choose(self, request: HttpRequest) -> Choices:
        kinds = Run.objects.exclude(error_kind="").order_by("error_kind").distinct()
        for kind in kinds.values_list("error_kind", flat=True)[:CHOICE_LIMIT]:
            yield kind, error_title(kind)

    def narrow(self, rows: QuerySet, value: str) -> QuerySet:
        return rows.filter(error_kind=value)


class StatusFilter(ExactFilter):
    """The state of one of the conversation's runs."""

    title = gettext_lazy("Run status")
    parameter_name = "run_status"

    def choose(self, request: HttpRequest) -> Choices:
        return RunStatus.choices

    def narrow(self, rows: QuerySet, value: str) -> QuerySet:
        return rows.filter(Exists(Run.objects.filter(conversation=OuterRef("pk"), status=value)))


class DeletedFilter(ExactFilter):
    title = gettext_lazy("Deleted")
    parameter_name = "deleted"

    def choose(self, request: HttpRequest) -> Choices:
        return (("no", gettext("No")), ("yes", gettext("Yes")))

    def narrow(self, rows: QuerySet, value: str) -> QuerySet:
        return rows.filter(deleted_at__isnull=value == "no")


# --- the history: a list to search and filter, and a transcript to read
# ----------------------------


class ConversationAdmin(ReadsConversations):
    """Nothing can be added, changed or deleted here."""

    summary = gettext_lazy(
        "All conversations, read-only. Opening someone else’s conversation requires a reason, which "
        "its participants can see."
    )
    icon = "message-square"
    page_template = "admin/chat/conversation/transcript.html"
    list_display = (
        "name_cell",
        "owner_cell",
        "team_cell",
        "visibility_cell",
        "turn_count",
        "last_model",
        "last_status",
        "dates_cell",
    )
    list_display_links = ("name_cell",)
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
    ordering = ("-updated_at", "-pk")
    # The names only make the search field appear; `get_search_results` does the search.
    search_fields = ("title",)
    search_help_text = gettext_lazy(
        "Search people, titles, messages and answers (requires a reason), or find a conversation by ID."
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Conversation]:
        last_run = Run.objects.filter(conversation=OuterRef("pk")).order_by("-pk")
        return (
            super()
            .get_queryset(request)
            .defer("system_prompt", "parameters")
            .annotate(
                is_readable=access.is_readable(request.user),
                turn_total=count_of(Message, "conversation"),
                last_run_model=Subquery(last_run.values("model")[:1]),
                last_run_status=Subquery(last_run.values("status")[:1]),
            )
        )

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Conversation], search_term: str
    ) -> tuple[QuerySet[Conversation], bool]:
        words = searched_words(search_term)
        # To find a conversation by its id reveals nothing that the list doesn't.
        key = as_uuid(words)
        return queryset.filter(Q(public_id=key) if key else with_words(words)), False

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, object] | None = None
    ) -> HttpResponse:
        words = searched_words(request.GET.get(SEARCH_VAR, ""))
        if words and not as_uuid(words) and not access.may_search(request.user, words):
            target = urlencode({"next": request.get_full_path()})
            return redirect(f"{reverse('administrator_search')}?{target}")
        return super().changelist_view(request, extra_context)

    @admin.display(description=gettext_lazy("Conversation"))
    def name_cell(self, conversation: Conversation) -> str:
        is_readable = conversation.is_readable  # type: ignore[attr-defined]
        title = conversation_name(conversation, is_readable=True) if is_readable else ""
        name = format_html("{}<small>{}</small>", title, conversation.public_id)
        if conversation.deleted_at is None:
            return name
        return format_html("{} {}", name, badge(gettext("Deleted"), "bad"))

    @admin.display(description=gettext_lazy("Visibility"), ordering="visibility")
    def visibility_cell(self, conversation: Conversation) -> SafeString:
        icon = VISIBILITY_ICONS[Visibility(conversation.visibility)]
        return badge(conversation.get_visibility_display(), icon=icon)

    @admin.display(description=gettext_lazy("Updated"), ordering="updated_at")
    def dates_cell(self, conversation: Conversation) -> SafeString:
        date = when(conversation.created_at, "date")
        began = format_html(gettext("Created {date}"), date=date)
        return format_html("{}<small>{}</small>", when(conversation.updated_at, "full"), began)

    owner_cell = column("owner", gettext_lazy("Owner"), ordering="owner__name")
    team_cell = column("team", gettext_lazy("Team"), ordering="team__name")
    turn_count = column("turn_total", gettext_lazy("Messages"))

    @admin.display(description=gettext_lazy("Last model"), ordering="last_run_model")
    def last_model(self, conversation: Conversation) -> str:
        return cell(conversation.last_run_model or "–")  # type: ignore[attr-defined]

    @admin.display(description=gettext_lazy("Last status"), ordering="last_run_status")
    def last_status(self, conversation: Conversation) -> str:
        status = conversation.last_run_status  # type: ignore[attr-defined]
        return badge(RunStatus(status).label, BADGES[status]) if status else "–"

    def find(self, request: HttpRequest, key: int) -> Conversation:
        rows = Conversation.objects.select_related("owner", "team", "upstream")
        conversation = rows.filter(pk=key).first()
        if conversation is None:
            raise Http404(NOT_HERE)
        return conversation

    def conversation_of(self, record: Conversation) -> Conversation:
        return record

    def detail_of(self, request: HttpRequest, record: Conversation) -> dict[str, object]:
        return {"page": _page_of(request)}

    def read(self, request: HttpRequest, record: Conversation) -> dict[str, object]:
        rows = read_page(record, _page_of(request))
        return {"title": gettext("Transcript"), "rows": rows, "turns": partial(turns_of, rows)}


def _page_of(request: HttpRequest) -> int:
    return whole_number(request.GET.get("page", ""))
