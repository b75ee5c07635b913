"""The administration site: its records, its audit log, and who may sign in."""

from __future__ import annotations

import json
from collections.abc import Iterator

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
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
from chat.administration.overview import overview
from chat.administration.runs import RunAdmin, RunnerAdmin
from chat.administration.sentences import (
    action_name,
    conversation_key,
    marked_sentence,
    read_titles,
    sentence,
)
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
from chat.web.admin import AdministratorsOnly, cell, time_column


class AuditList(ChangeList):
    """Knows the titles of the conversations that the events of its page are about."""

    titles: dict[int, str]

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        titles = read_titles(self.result_list, request.user)
        for event in self.result_list:
            event.title = titles.get(event.pk, "")


class ActionFilter(admin.AllValuesFieldListFilter):
    """The actions that were recorded, by their names instead of their verbs."""

    def choices(self, changelist: ChangeList) -> Iterator[dict[str, object]]:
        every, *verbs = super().choices(changelist)
        yield every
        for each in verbs:
            yield {**each, "display": action_name(str(each["display"]))}


class AuditEventAdmin(AdministratorsOnly):
    summary = gettext_lazy("Who did what, and when. Entries can’t be changed.")
    icon = "history"
    plural = gettext_lazy("Audit log")
    list_display = ("sentence_cell", time_column("at", gettext_lazy("Date")))
    list_filter = (
        ("verb", ActionFilter),
        ("actor", admin.RelatedOnlyFieldListFilter),
        "at",
    )
    list_select_related = ("actor", "subject")
    search_fields = (
        "verb",
        "target",
        "actor__name",
        "actor__email",
        "subject__name",
        "subject__email",
    )
    ordering = ("-pk",)
    fieldsets = (
        (None, {"fields": ("actor", "subject", "target_text", "action_cell")}),
        (gettext_lazy("Recorded data"), {"classes": ("collapse",), "fields": ("detail_text",)}),
        (
            gettext_lazy("Details"),
            {"classes": ("side",), "fields": (time_column("at", gettext_lazy("Date")), "id")},
        ),
    )

    def get_changelist(self, request: HttpRequest, **options: object) -> type[ChangeList]:
        return AuditList

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> AuditEvent | None:
        event: AuditEvent | None = super().get_object(request, object_id, from_field)
        if event is not None:
            event.title = read_titles([event], request.user).get(event.pk, "")  # type: ignore[attr-defined]
        return event

    def title_of(self, row: AuditEvent) -> str:
        return sentence(row, title=_title_in(row))

    @admin.display(description=gettext_lazy("What happened"), ordering="verb")
    def sentence_cell(self, event: AuditEvent) -> SafeString:
        return marked_sentence(event, title=_title_in(event))

    @admin.display(description=gettext_lazy("Action"), ordering="verb")
    def action_cell(self, event: AuditEvent) -> str:
        return cell(action_name(event.verb))

    @admin.display(description=gettext_lazy("Object"))
    def target_text(self, event: AuditEvent) -> str:
        """The conversation by its title or id, with a link; anything else as it was recorded."""
        key = conversation_key(event)
        conversation = Conversation.objects.filter(public_id=key).first() if key else None
        if conversation is None:
            return cell(event.target) or "–"
        address = reverse("admin:chat_conversation_change", args=[conversation.pk])
        name = _title_in(event) or str(key)
        return format_html('<a href="{}">{}</a>', address, cell(name))

    @admin.display(description=gettext_lazy("JSON"))
    def detail_text(self, event: AuditEvent) -> SafeString:
        recorded = {"verb": event.verb, "target": event.target, "detail": event.detail}
        text = json.dumps(recorded, ensure_ascii=False, indent=2)
        return format_html('<pre class="json" tabindex="0">{}</pre>', text)


def _title_in(event: AuditEvent) -> str:
    """The title of its conversation, which the list or the page has read with it."""
    return str(getattr(event, "title", ""))


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
    (gettext_lazy("Infrastructure"), ((Upstream, UpstreamAdmin), (Runner, RunnerAdmin))),
)
REGISTRY: Rows = tuple(row for _, rows in GROUPS for row in rows)


# --- the site
# --------------------------------------------------------------------------------------


class TributaryAdminSite(admin.AdminSite):
    """The site for administrators. Sign-in, sign-out and passwords are the application's own pages,
    so the same limits apply to all."""

    site_header = gettext_lazy("Administration")
    site_title = "Tributary"
    index_title = gettext_lazy("Overview")
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

    def index(
        self, request: HttpRequest, extra_context: dict[str, object] | None = None
    ) -> HttpResponse:
        return super().index(request, {**overview(request.user), **(extra_context or {})})

    def app_index(
        self, request: HttpRequest, app_label: str, extra_context: dict[str, object] | None = None
    ) -> HttpResponse:
        """Django's page of one application; there is only one here."""
        return redirect("admin:index")

    def get_app_list(
        self, request: HttpRequest, app_label: str | None = None
    ) -> list[dict[str, object]]:
        """Django's list of the application, in the groups and the order of the registry."""
        from chat.administration.site import GROUPS

        apps = super().get_app_list(request, app_label)
        lines = {line["model"]: line for app in apps for line in app["models"]}
        for model, line in lines.items():
            line["name"] = self.get_model_admin(model).list_name
            line["icon"] = self.get_model_admin(model).icon
            line["route"] = f"admin:chat_{model._meta.model_name}_changelist"
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
