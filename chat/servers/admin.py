"""Servers, read-only; the settings pages change them. Keys are never loaded."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timezone import localtime
from django.utils.translation import gettext, gettext_lazy, ngettext

from chat.models import Run, RunStatus, Upstream
from chat.servers.actions.servers import set_draining
from chat.web.admin import AdministratorsOnly, cell, count_of


class UpstreamAdmin(AdministratorsOnly):
    summary = gettext_lazy("Addresses, models and use. Change them in the settings.")
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

    @admin.display(description=gettext_lazy("name"), ordering="name")
    def name_cell(self, upstream: Upstream) -> str:
        return cell(upstream.name)

    @admin.display(description=gettext_lazy("address"), ordering="base_url")
    def address(self, upstream: Upstream) -> str:
        return cell(upstream.base_url)

    @admin.display(description=gettext_lazy("API key"))
    def key_state(self, upstream: Upstream) -> str:
        if not upstream.has_key:
            return gettext("None")
        if upstream.key_set_at is None:
            return gettext("Set")
        set_at = date_format(localtime(upstream.key_set_at), "DATETIME_FORMAT")
        return gettext("Set on %(date)s") % {"date": set_at}

    @admin.display(description=gettext_lazy("models"))
    def model_count(self, upstream: Upstream) -> int:
        return len(upstream.model_list)

    @admin.display(description=gettext_lazy("models"))
    def models(self, upstream: Upstream) -> str:
        return cell(", ".join(str(entry.get("id", "")) for entry in upstream.model_list))

    @admin.display(description=gettext_lazy("runs"), ordering="run_total")
    def run_count(self, upstream: Upstream) -> int:
        return upstream.run_total  # type: ignore[attr-defined]

    @admin.display(description=gettext_lazy("state"), ordering="is_draining")
    def state(self, upstream: Upstream) -> str:
        running, waiting = upstream.running_total, upstream.waiting_total  # type: ignore[attr-defined]
        text = (
            ngettext(
                "Paused: %(running)d active run, %(waiting)d queued",
                "Paused: %(running)d active runs, %(waiting)d queued",
                running,
            )
            if upstream.is_draining
            else ngettext(
                "%(running)d active run, %(waiting)d queued",
                "%(running)d active runs, %(waiting)d queued",
                running,
            )
        )
        return text % {"running": running, "waiting": waiting}

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
        if not changed:
            text = gettext("Nothing changed: the servers were in this state already.")
        elif is_draining:
            text = gettext("Paused: %(names)s.")
        else:
            text = gettext("Resumed: %(names)s.")
        self.message_user(request, text % {"names": ", ".join(changed)})

    @admin.display(description=gettext_lazy("settings"))
    def settings_link(self, upstream: Upstream) -> SafeString:
        address = reverse("server", args=[upstream.public_id])
        return format_html('<a href="{}">{}</a>', address, gettext("Change or test this server"))
