"""The filters of the history: each a list of choices, and anything else finds nothing."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib import admin
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest

from chat.models import Conversation, Message, Run, RunStatus, User
from chat.rendering.messages import error_title

# A longer list is no help; the search field finds the rest.
CHOICE_LIMIT = 200

Choices = Iterable[tuple[object, str]]


class ExactFilter(admin.SimpleListFilter):
    """A filter whose value must be one of its choices, whatever somebody writes into the address."""

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
    """Who began the conversation, or wrote in it."""

    title = "person"
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

    title = "model"
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
    """What went wrong, in words."""

    title = "error"
    parameter_name = "error"

    def choose(self, request: HttpRequest) -> Choices:
        kinds = Run.objects.exclude(error_kind="").order_by("error_kind").distinct()
        for kind in kinds.values_list("error_kind", flat=True)[:CHOICE_LIMIT]:
            yield kind, error_title(kind)

    def narrow(self, rows: QuerySet, value: str) -> QuerySet:
        return rows.filter(error_kind=value)


class StatusFilter(ExactFilter):
    """How one of the conversation's runs stands or ended."""

    title = "status of a run"
    parameter_name = "run_status"

    def choose(self, request: HttpRequest) -> Choices:
        return RunStatus.choices

    def narrow(self, rows: QuerySet, value: str) -> QuerySet:
        return rows.filter(Exists(Run.objects.filter(conversation=OuterRef("pk"), status=value)))


class DeletedFilter(ExactFilter):
    title = "deletion"
    parameter_name = "deleted"

    def choose(self, request: HttpRequest) -> Choices:
        return (("no", "Not deleted"), ("yes", "Deleted"))

    def narrow(self, rows: QuerySet, value: str) -> QuerySet:
        return rows.filter(deleted_at__isnull=value == "no")
