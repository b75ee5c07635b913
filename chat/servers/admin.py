"""Servers, read-only; the settings pages change them. Keys are never loaded."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chat.models import Run, RunStatus, Upstream
from chat.servers.actions.servers import set_draining
from chat.web.admin import AdministratorsOnly, cell, count_of


class UpstreamAdmin(AdministratorsOnly):
    summary = "Addresses, models and use; changed in the settings."
    list_display = (
        "name_cell",
        "dialect",
        "address",
        "key_state",
        "model_count",
        "run_count",
        "state",
        "probed_at",
        "is_enabled",
    )
    list_filter = ("is_enabled", "is_draining", "dialect")
    search_fields = ("name", "base_url")
    ordering = ("name",)
    actions = ("drain", "resume")
    fields = (
        "settings_link",
        "name",
        "dialect",
        "address",
        "key_state",
        "concurrency_limit",
        "is_enabled",
        "state",
        "models",
        "probed_at",
        "created_by",
        "created_at",
        "public_id",
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

    @admin.display(description="name", ordering="name")
    def name_cell(self, upstream: Upstream) -> str:
        return cell(upstream.name)

    @admin.display(description="address", ordering="base_url")
    def address(self, upstream: Upstream) -> str:
        return cell(upstream.base_url)

    @admin.display(description="key")
    def key_state(self, upstream: Upstream) -> str:
        if not upstream.has_key:
            return "none"
        if upstream.key_set_at is None:
            return "set"
        return f"set on {upstream.key_set_at:%Y-%m-%d %H:%M}"

    @admin.display(description="models")
    def model_count(self, upstream: Upstream) -> int:
        return len(upstream.model_list)

    @admin.display(description="models")
    def models(self, upstream: Upstream) -> str:
        return cell(", ".join(str(entry.get("id", "")) for entry in upstream.model_list))

    @admin.display(description="runs", ordering="run_total")
    def run_count(self, upstream: Upstream) -> int:
        return upstream.run_total  # type: ignore[attr-defined]

    @admin.display(description="state", ordering="is_draining")
    def state(self, upstream: Upstream) -> str:
        running, waiting = upstream.running_total, upstream.waiting_total  # type: ignore[attr-defined]
        words = f"{running} under way, {waiting} waiting"
        return f"Draining: {words}" if upstream.is_draining else words

    @admin.action(description="Drain: begin nothing more at these servers")
    def drain(self, request: HttpRequest, upstreams: QuerySet[Upstream]) -> None:
        self._set_draining(request, upstreams, is_draining=True)

    @admin.action(description="Resume: let these servers go on")
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
        what = "Drained" if is_draining else "Resumed"
        words = f"{what}: {', '.join(changed)}." if changed else "They were in that state already."
        self.message_user(request, words)

    @admin.display(description="settings")
    def settings_link(self, upstream: Upstream) -> SafeString:
        address = reverse("server", args=[upstream.public_id])
        return format_html('<a href="{}">Change or test this server</a>', address)
