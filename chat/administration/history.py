"""The conversation history of the administration: list, filters, search."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Exists, F, Func, OuterRef, Q, QuerySet, Subquery, TextField
from django.db.models.sql.compiler import SQLCompiler
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from chat.access import NOT_HERE
from chat.administration.transcript import BADGES, read_page, turns_of
from chat.models import Conversation, Message, Run, RunStatus, User, Visibility
from chat.rendering.messages import error_title
from chat.web import admin as history
from chat.web.admin import (
    AdministratorsOnly,
    RecordsSearches,
    cell,
    count_of,
    object_key,
    time_column,
    whole_number,
)
from chat.web.components import badge

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


# --- search: names, titles, and the text of messages and answers
# -----------------------------------

# Each word costs a scan of what the filters leave.
WORD_LIMIT = 8


class AnswerText(Func):
    """The text of a stored result: the contents of its output items, without the JSON around them.
    A search in the JSON itself would find its member names ("stats", "content") everywhere."""

    output_field = TextField()
    arity = 1

    def as_sqlite(self, compiler: SQLCompiler, connection: object, **extra: object) -> tuple:
        return self.as_sql(
            compiler,
            connection,
            template="(SELECT group_concat(json_extract(item.value, '$.content'), ' ') FROM"
            " json_each(CASE WHEN json_valid(%(expressions)s) THEN %(expressions)s ELSE '{}' END,"
            " '$.output') AS item)",
            **extra,
        )

    def as_postgresql(self, compiler: SQLCompiler, connection: object, **extra: object) -> tuple:
        # PostgreSQL cannot parse a row with an escaped NUL, so its text is searched as it is.
        # Whether a text is JSON can only be asked from version 16 on; only our encoder writes it.
        return self.as_sql(
            compiler,
            connection,
            template="(CASE WHEN %(expressions)s = '' OR position('\\u0000' in %(expressions)s) > 0"
            " THEN %(expressions)s"
            " WHEN json_typeof((%(expressions)s)::json -> 'output') = 'array'"
            " THEN (SELECT string_agg(item ->> 'content', ' ')"
            " FROM json_array_elements((%(expressions)s)::json -> 'output') AS item) END)",
            **extra,
        )


def search(rows: QuerySet[Conversation], text: str) -> QuerySet[Conversation]:
    """The conversations in which every word occurs somewhere."""
    for word in text.split()[:WORD_LIMIT]:
        rows = rows.filter(_has(word))
    return rows


def _has(word: str) -> Q:
    turns = Message.objects.filter(conversation=OuterRef("pk"))
    written = turns.filter(
        Q(text__icontains=word) | Q(author__name__icontains=word) | Q(author__email__icontains=word)
    )
    answered = (
        Run.objects.filter(conversation=OuterRef("pk"))
        .annotate(words=AnswerText(F("result")))
        .filter(words__icontains=word)
    )
    return (
        Q(title__icontains=word)
        | Q(owner__name__icontains=word)
        | Q(owner__email__icontains=word)
        | Exists(written)
        | Exists(answered)
    )


# --- the history: a list to search and filter, and a transcript to read
# ----------------------------


class ConversationAdmin(RecordsSearches, AdministratorsOnly):
    """Nothing can be added, changed or deleted here. Opening a conversation of others is
    recorded."""

    summary = gettext_lazy(
        "All conversations, read-only. Opening someone else’s is recorded in the audit log."
    )
    icon = "message-square"
    list_display = (
        "title_cell",
        "owner_cell",
        "team_cell",
        "visibility_cell",
        "turn_count",
        "last_model",
        "last_status",
        time_column("updated_at", gettext_lazy("Updated")),
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
    ordering = ("-updated_at", "-pk")
    # The names only make the search field appear; `get_search_results` does the search.
    search_fields = ("title",)
    search_help_text = gettext_lazy(
        "Search people, titles, messages and answers. Searches are recorded in the audit log."
    )

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

    @admin.display(description=gettext_lazy("Title"), ordering="title")
    def title_cell(self, conversation: Conversation) -> str:
        title = cell(conversation.title) or gettext("Untitled")
        if conversation.deleted_at is None:
            return title
        return format_html("{} {}", title, badge(gettext("Deleted"), "bad"))

    @admin.display(description=gettext_lazy("Visibility"), ordering="visibility")
    def visibility_cell(self, conversation: Conversation) -> SafeString:
        icon = VISIBILITY_ICONS[Visibility(conversation.visibility)]
        return badge(conversation.get_visibility_display(), icon=icon)

    @admin.display(description=gettext_lazy("Owner"), ordering="owner__name")
    def owner_cell(self, conversation: Conversation) -> str:
        return cell(conversation.owner)

    @admin.display(description=gettext_lazy("Team"), ordering="team__name")
    def team_cell(self, conversation: Conversation) -> str:
        return cell(conversation.team)

    @admin.display(description=gettext_lazy("Messages"), ordering="turn_total")
    def turn_count(self, conversation: Conversation) -> int:
        return conversation.turn_total  # type: ignore[attr-defined]

    @admin.display(description=gettext_lazy("Last model"), ordering="last_run_model")
    def last_model(self, conversation: Conversation) -> str:
        return cell(conversation.last_run_model or "–")  # type: ignore[attr-defined]

    @admin.display(description=gettext_lazy("Last status"), ordering="last_run_status")
    def last_status(self, conversation: Conversation) -> str:
        status = conversation.last_run_status  # type: ignore[attr-defined]
        return badge(RunStatus(status).label, BADGES[status]) if status else "–"

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, object] | None = None,
    ) -> HttpResponse:
        """Shows the transcript instead of a form."""
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
                "title": gettext("Transcript"),
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
