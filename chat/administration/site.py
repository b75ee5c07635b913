"""The administration site: its records, its audit log, and who may sign in."""

from __future__ import annotations

import json

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from chat.access import NOT_HERE
from chat.accounts.admin import AccessTokenAdmin, InvitationAdmin, TeamAdmin, UserAdmin
from chat.administration.history import ConversationAdmin
from chat.administration.runs import RunAdmin, RunnerAdmin
from chat.files.admin import ArtifactVersionAdmin, MockupVersionAdmin, StoredFileAdmin
from chat.models import (
    AccessToken,
    ArtifactVersion,
    AuditEvent,
    Conversation,
    Invitation,
    MockupVersion,
    Run,
    Runner,
    StoredFile,
    Team,
    Upstream,
    User,
)
from chat.servers.admin import UpstreamAdmin
from chat.web.admin import AdministratorsOnly, cell


class AuditEventAdmin(AdministratorsOnly):
    summary = gettext_lazy("Who did what, and when. Entries can’t be changed.")
    list_display = ("at", "actor_cell", "verb", "subject_cell", "target_cell", "detail_cell")
    list_filter = ("verb", "at")
    list_select_related = ("actor", "subject")
    search_fields = (
        "verb",
        "target",
        "actor__name",
        "actor__email",
        "subject__name",
        "subject__email",
    )
    date_hierarchy = "at"
    ordering = ("-pk",)
    fields = ("at", "actor", "verb", "subject", "target", "detail_text")

    @admin.display(description=gettext_lazy("Actor"), ordering="actor__name")
    def actor_cell(self, event: AuditEvent) -> str:
        return cell(event.actor) if event.actor else "–"

    @admin.display(description=gettext_lazy("Owner"), ordering="subject__name")
    def subject_cell(self, event: AuditEvent) -> str:
        return cell(event.subject) if event.subject else "–"

    @admin.display(description=gettext_lazy("Object"), ordering="target")
    def target_cell(self, event: AuditEvent) -> str:
        return cell(event.target)

    @admin.display(description=gettext_lazy("Details"))
    def detail_cell(self, event: AuditEvent) -> str:
        return cell(json.dumps(event.detail, ensure_ascii=False)) if event.detail else ""

    @admin.display(description=gettext_lazy("Details"))
    def detail_text(self, event: AuditEvent) -> SafeString:
        text = json.dumps(event.detail, ensure_ascii=False, indent=2)
        return format_html('<pre class="json">{}</pre>', text)


# The records that the site shows.

Rows = tuple[tuple[type[Model], type[admin.ModelAdmin]], ...]

GROUPS: tuple[tuple[Promise, Rows], ...] = (
    (
        gettext_lazy("History"),
        ((Conversation, ConversationAdmin), (Run, RunAdmin), (AuditEvent, AuditEventAdmin)),
    ),
    (
        gettext_lazy("Files"),
        (
            (StoredFile, StoredFileAdmin),
            (ArtifactVersion, ArtifactVersionAdmin),
            (MockupVersion, MockupVersionAdmin),
        ),
    ),
    (
        gettext_lazy("People"),
        (
            (User, UserAdmin),
            (Team, TeamAdmin),
            (Invitation, InvitationAdmin),
            (AccessToken, AccessTokenAdmin),
        ),
    ),
    (gettext_lazy("Servers"), ((Upstream, UpstreamAdmin), (Runner, RunnerAdmin))),
)
REGISTRY: Rows = tuple(row for _, rows in GROUPS for row in rows)


# --- the site
# --------------------------------------------------------------------------------------


class TributaryAdminSite(admin.AdminSite):
    """The site for administrators. Sign-in, sign-out and passwords are the application's own pages,
    so the same limits apply to all."""

    site_header = gettext_lazy("Tributary administration")
    site_title = "Tributary"
    index_title = gettext_lazy("Administration")
    empty_value_display = "–"
    enable_nav_sidebar = False

    def __init__(self, name: str = "admin") -> None:
        super().__init__(name)
        # Imported here, because the models are ready only when the first address is resolved.
        from chat.administration.site import REGISTRY

        for model, model_admin in REGISTRY:
            self.register(model, model_admin)

    def login(
        self, request: HttpRequest, extra_context: dict[str, object] | None = None
    ) -> HttpResponse:
        """Sends a visitor to the sign-in page. Other users who are signed in are told that they lack
        access: the address of this site is no secret."""
        if self.has_permission(request):
            return redirect("admin:index")
        if request.user.is_authenticated:
            raise PermissionDenied
        after = request.GET.get("next") or reverse("admin:index")
        return redirect(f"{reverse('account_login')}?{urlencode({'next': after})}")

    def logout(
        self, request: HttpRequest, extra_context: dict[str, object] | None = None
    ) -> HttpResponse:
        return redirect("account_logout")

    def password_change(
        self, request: HttpRequest, extra_context: dict[str, object] | None = None
    ) -> HttpResponse:
        return redirect("account_change_password")

    def autocomplete_view(self, request: HttpRequest) -> HttpResponse:
        """No field here uses autocompletion. Django serves it for every relation nevertheless, and
        it would allow searching other people's text without a row in the audit log."""
        raise Http404(NOT_HERE)

    def get_app_list(
        self, request: HttpRequest, app_label: str | None = None
    ) -> list[dict[str, object]]:
        """Django's list of the application, in the groups and the order of the registry."""
        from chat.administration.site import GROUPS

        apps = super().get_app_list(request, app_label)
        lines = {line["model"]: line for app in apps for line in app["models"]}
        for model, line in lines.items():
            line["summary"] = self.get_model_admin(model).summary
        groups = [
            {
                "name": name,
                "app_label": "chat",
                "app_url": reverse("admin:app_list", args=["chat"], current_app=self.name),
                "has_module_perms": True,
                "models": [lines[model] for model, _ in rows if model in lines],
            }
            for name, rows in GROUPS
        ]
        return [group for group in groups if group["models"]]
