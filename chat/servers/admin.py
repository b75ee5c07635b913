"""Servers, read-only; the settings pages change them. Keys are never loaded."""

from __future__ import annotations

from collections.abc import Iterator

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from chat.models import Run, RunStatus, Upstream
from chat.servers.actions.servers import set_draining
from chat.servers.server_page import dialect_label
from chat.web.admin import AdministratorsOnly, cell, column, count_of, time_column
from chat.web.components import badge, button
from chat.web.tags import when


def has_failed(upstream: Upstream) -> bool:
    """Returns whether a step of the last connection test failed."""
    return any(step.get("state") == "failed" for step in upstream.probe)


class ApiTypeFilter(admin.AllValuesFieldListFilter):
    """The API types in use, by their names instead of their ids."""

    def choices(self, changelist: ChangeList) -> Iterator[dict[str, object]]:
        every, *types = super().choices(changelist)
        yield every
        for each in types:
            yield {**each, "display": dialect_label(str(each["display"]))}


class UpstreamAdmin(AdministratorsOnly):
    summary = gettext_lazy("Addresses, models and usage. Settings are on each server’s page.")
    icon = "server"
    list_display = (
        "name_cell",
        "state",
        "test_state",
        "load",
        "model_count",
        "run_count",
        "connection",
    )
    list_filter = ("is_enabled", "is_draining", ("dialect", ApiTypeFilter))
    search_fields = ("name", "base_url")
    ordering = ("name",)
    actions = ("drain", "resume")
    fieldsets = (
        (None, {"fields": ("settings_link", "state", "test_state", "load", "run_count")}),
        (
            gettext_lazy("Connection"),
            {"fields": ("api_type", "address", "key_state", "concurrency_limit", "models")},
        ),
        (
            gettext_lazy("Details"),
            {
                "classes": ("side",),
                "fields": (
                    "created_by",
                    time_column("created_at", gettext_lazy("Created")),
                    time_column("probed_at", gettext_lazy("Last tested")),
                    "public_id",
                ),
            },
        ),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Upstream]:
        rows = (
            super()
            .get_queryset(request)
            .annotate(
                run_total=count_of(Run, "upstream"),
                running_total=count_of(Run, "upstream", status=RunStatus.RUNNING),
                waiting_total=count_of(Run, "upstream", status=RunStatus.QUEUED),
            )
        )
        return rows.select_related("created_by")

    name_cell = column("name", gettext_lazy("Name"))

    @admin.display(description=gettext_lazy("API type"), ordering="dialect")
    def api_type(self, upstream: Upstream) -> str:
        return cell(dialect_label(upstream.dialect))

    address = column("base_url", gettext_lazy("Address"))

    @admin.display(description=gettext_lazy("Connection"), ordering="dialect")
    def connection(self, upstream: Upstream) -> SafeString:
        return format_html("{}<small>{}</small>", self.api_type(upstream), self.address(upstream))

    @admin.display(description=gettext_lazy("API key"))
    def key_state(self, upstream: Upstream) -> str:
        if not upstream.has_key:
            return gettext("None")
        if upstream.key_set_at is None:
            return gettext("Stored")
        return format_html(gettext("Stored on {date}"), date=when(upstream.key_set_at, "full"))

    @admin.display(description=gettext_lazy("Models"))
    def model_count(self, upstream: Upstream) -> int:
        return len(upstream.model_list)

    @admin.display(description=gettext_lazy("Models"))
    def models(self, upstream: Upstream) -> str:
        return cell(", ".join(str(entry.get("id", "")) for entry in upstream.model_list))

    run_count = column("run_total", gettext_lazy("Runs"))

    @admin.display(description=gettext_lazy("State"), ordering="is_enabled")
    def state(self, upstream: Upstream) -> SafeString:
        if not upstream.is_enabled:
            return badge(gettext("Disabled"))
        if upstream.is_draining:
            return badge(gettext("Paused"), "wait", "pause")
        return badge(gettext("Enabled"), "good")

    @admin.display(description=gettext_lazy("Last test"), ordering="probed_at")
    def test_state(self, upstream: Upstream) -> SafeString:
        if not upstream.probe:
            return badge(gettext("Not tested"))
        if has_failed(upstream):
            return badge(gettext("Failed"), "bad")
        return badge(gettext("Passed"), "good")

    @admin.display(description=gettext_lazy("Load"))
    def load(self, upstream: Upstream) -> str:
        running, waiting = upstream.running_total, upstream.waiting_total  # type: ignore[attr-defined]
        if not running and not waiting:
            return gettext("Idle")
        counts = {"running": running, "waiting": waiting}
        return gettext("%(running)d running, %(waiting)d queued") % counts

    @admin.action(description=gettext_lazy("Pause selected servers"))
    def drain(self, request: HttpRequest, upstreams: QuerySet[Upstream]) -> None:
        self._set_draining(request, upstreams, is_draining=True)

    @admin.action(description=gettext_lazy("Resume selected servers"))
    def resume(self, request: HttpRequest, upstreams: QuerySet[Upstream]) -> None:
        self._set_draining(request, upstreams, is_draining=False)

    def _set_draining(
        self, request: HttpRequest, upstreams: QuerySet[Upstream], *, is_draining: bool
    ) -> None:
        changed = [
            upstream.name
            for upstream in upstreams
            if set_draining(request.user, upstream, is_draining=is_draining)
        ]
        names = {"names": ", ".join(changed)}
        if not changed:
            told = gettext("Nothing changed. The selected servers were already in this state.")
        elif is_draining:
            told = gettext("Paused: %(names)s.") % names
        else:
            told = gettext("Resumed: %(names)s.") % names
        self.message_user(request, told)

    @admin.display(description=gettext_lazy("Settings"))
    def settings_link(self, upstream: Upstream) -> SafeString:
        address = reverse("server", args=[upstream.public_id])
        return button(gettext("Open server settings"), icon="settings", small=True, href=address)
