"""Base classes of the administration: who may read. Reading changes nothing and is recorded."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Count, Model, OuterRef, Subquery
from django.db.models.constants import LOOKUP_SEP
from django.db.models.functions import Coalesce
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.functional import Promise
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.text import Truncator, capfirst
from django.utils.translation import gettext

from chat import access
from chat.access import NOT_HERE
from chat.models import AuditEvent, Conversation
from chat.web.confirmation import confirmed_recently
from chat.web.tags import when

# A hostile value may be megabytes long; a cell of a list must not be.
CELL_LENGTH = 300
# Search words are recorded as evidence, cut to a length that holds no copy of a pasted text.
SEARCHED_LENGTH = 200


def cell(text: object) -> str:
    """Text for a cell of a list: one line, cut. The page escapes it."""
    return Truncator(" ".join(str(text).split())).chars(CELL_LENGTH)


def seconds(duration: timedelta | None) -> str:
    """A duration for people, or an empty string if it was not measured."""
    if duration is None:
        return ""
    value = duration.total_seconds()
    if value < 60:
        return gettext("%(seconds)s s") % {"seconds": number_format(value, 1)}
    minutes, rest = divmod(int(value), 60)
    return gettext("%(minutes)d min %(seconds)d s") % {"minutes": minutes, "seconds": rest}


def time_column(name: str, label: str | Promise) -> Callable[[Any], SafeString | str]:
    """A column or read-only field with the time in the field ``name``, exact on hover."""

    @admin.display(description=label, ordering=name)
    def column(row: Any) -> SafeString | str:
        return when(getattr(row, name), "full") or "–"

    column.__name__ = name
    return column


def column(
    attribute: str, label: str | Promise, *, ordering: str = ""
) -> Callable[[Any, Any], str | int]:
    """A method of `AdministratorsOnly`: the column of an attribute, a number or a text."""

    @admin.display(description=label, ordering=ordering or attribute)
    def shown(_: admin.ModelAdmin, row: Any) -> str | int:
        value = getattr(row, attribute)
        return value if isinstance(value, int) else cell(value)

    return shown


class AdministratorsOnly(admin.ModelAdmin):
    """Permissions follow the one flag "administrator"; permission rows are not used. Nothing is
    added, changed or deleted unless a subclass allows it."""

    actions = None
    list_per_page = 50
    show_facets = admin.ShowFacets.NEVER
    # One line below the title of the list.
    summary: str | Promise = ""
    # The name of the list, where that of the rows does not say it.
    plural: str | Promise = ""
    icon = "list"

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, object] | None = None
    ) -> HttpResponse:
        shown = {"title": self.list_name, "summary": self.summary}
        return super().changelist_view(request, {**shown, **(extra_context or {})})

    @property
    def list_name(self) -> str:
        return str(self.plural or capfirst(self.opts.verbose_name_plural))

    def title_of(self, row: Any) -> str:
        return cell(row)

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Any = None,
    ) -> HttpResponse:
        context["list_name"] = self.list_name
        if obj is not None:
            context |= {"title": self.title_of(obj), "subtitle": None}
        return super().render_change_form(request, context, add, change, form_url, obj)

    def history_view(
        self,
        request: HttpRequest,
        object_id: str,
        extra_context: dict[str, object] | None = None,
    ) -> HttpResponse:
        """The history of a record that can be changed here; the page names the record."""
        if not self.has_change_permission(request):
            raise Http404(NOT_HERE)
        return super().history_view(request, object_id, extra_context)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Allows only the lookups of the page's own filters. Django allows every column, so a list
        could be filtered by the beginning of a password hash, or by words in an answer."""
        is_offered = lookup.split(LOOKUP_SEP)[0] in self._filtered_names()
        return is_offered and super().lookup_allowed(lookup, value, request)

    def _filtered_names(self) -> set[str]:
        names = set()
        for each in self.list_filter:
            first = each[0] if isinstance(each, tuple) else each
            names.add(first if isinstance(first, str) else first.parameter_name)
        return names

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return bool(request.user.is_active and request.user.is_staff)

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class ReadsConversations(AdministratorsOnly):
    """Records of which a page shows content of a conversation. The conversation's rules apply:
    others than its people give a reason first, and each reading is recorded."""

    page_template: str

    def find(self, request: HttpRequest, key: int) -> Any:
        """The record, without its content. Raises ``Http404``."""
        record = self.get_queryset(request).filter(pk=key).first()
        if record is None:
            raise Http404(NOT_HERE)
        return record

    def conversation_of(self, record: Any) -> Conversation:
        raise NotImplementedError

    def detail_of(self, request: HttpRequest, record: Any) -> dict[str, object]:
        """The record's description in the audit log."""
        raise NotImplementedError

    def read(self, request: HttpRequest, record: Any) -> dict[str, object]:
        """The content, for the template. Expensive values are functions, which are called later."""
        raise NotImplementedError

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, object] | None = None,
    ) -> HttpResponse:
        """Shows the content instead of a form. The audit row is written first, so nothing is read
        without it; if reading fails, nothing was shown and the row is rolled back. There is none
        for content that the administrator can read in the application itself."""
        if object_id is None or not self.has_view_permission(request):
            raise PermissionDenied
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        record = self.find(request, object_key(object_id))
        conversation = self.conversation_of(record)
        with transaction.atomic():
            reading = access.reading_of(request.user, conversation)
            if reading is None:
                return _ask_for_reason(request, conversation)
            if reading.reason is not None:
                AuditEvent.objects.record(
                    request.user,
                    "conversation.read_by_administrator",
                    subject=conversation.owner,
                    target=f"conversation {conversation.public_id}",
                    visibility=conversation.visibility,
                    **self.detail_of(request, record),
                )
            content = self.read(request, record)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "list_name": self.list_name,
            "title": capfirst(self.opts.verbose_name),
            "conversation": conversation,
            "reading": reading,
            **content,
            **(extra_context or {}),
        }
        response = TemplateResponse(request, self.page_template, context)
        response["Cache-Control"] = "no-store"
        return response


def _ask_for_reason(request: HttpRequest, conversation: Conversation) -> HttpResponse:
    address = reverse("administrator_open", args=[conversation.public_id])
    return redirect(f"{address}?{urlencode({'next': request.get_full_path()})}")


def searched_words(text: str) -> str:
    """The words of a search, as they are searched for and recorded."""
    return " ".join(text.replace("\x00", " ").split())[:SEARCHED_LENGTH].strip()


def conversation_name(conversation: Conversation, *, is_readable: bool) -> str:
    """A conversation in a list: its title if it is readable (`access.is_readable`), else its id."""
    if not is_readable:
        return str(conversation.public_id)
    return cell(conversation.title) or gettext("Untitled")


def changed_values(form: object, names: list[str]) -> dict[str, dict[str, object]]:
    """The changed fields of a bound admin form, with their values before and after."""
    return {
        name: {"from": form.initial.get(name), "to": form.cleaned_data[name]}  # type: ignore[attr-defined]
        for name in names
    }


def count_of(model: type, name: str, **only: object) -> Coalesce:
    """A subquery that counts the rows of ``model`` (with the filter ``only``) whose field ``name``
    refers to the outer row. It needs no join, so rows are not duplicated."""
    rows = model.objects.filter(**{name: OuterRef("pk")}, **only).order_by().values(name)  # type: ignore[attr-defined]
    return Coalesce(Subquery(rows.annotate(count=Count("*")).values("count")), 0)


def whole_number(text: str) -> int:
    """The page number in an address; the first page for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 1


def object_key(text: str) -> int:
    """The key of a row in an address. Raises ``Http404``."""
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Http404(NOT_HERE)
    return int(text)


class ConfirmedChanges(AdministratorsOnly):
    """Forms that change the rights of other people, which need a recent confirmation."""

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        show: HttpResponse = confirmed_recently()(super().changeform_view)(
            request, object_id, form_url, extra_context
        )
        return show
