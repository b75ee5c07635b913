"""Accounts in the administration: users, teams with members, invitations, access tokens."""

from __future__ import annotations

from typing import Any

from allauth.account.models import EmailAddress
from django import forms
from django.contrib import admin
from django.contrib.admin.utils import flatten_fieldsets
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.forms import BaseInlineFormSet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy, ngettext

from chat import access
from chat.accounts.actions import people
from chat.accounts.actions.tokens import revoke_token
from chat.core.text import check_name, one_line
from chat.models import (
    AccessToken,
    AuditEvent,
    Conversation,
    Invitation,
    Membership,
    Team,
    TeamRole,
    User,
)
from chat.web.admin import (
    AdministratorsOnly,
    ConfirmedChanges,
    cell,
    changed_values,
    column,
    count_of,
    time_column,
)
from chat.web.components import badge


class NameForm(forms.ModelForm):
    """A name must be one visible line, also when an administrator types it."""

    def clean_name(self) -> str:
        name = one_line(self.cleaned_data["name"])
        check_name(name)
        return name


class UserAdmin(ConfirmedChanges):
    """Users join by invitation and are deactivated, never deleted, because their messages would be
    deleted too."""

    summary = gettext_lazy("Everyone with an account, including administrators.")
    icon = "user"
    list_display = (
        "name_cell",
        "email",
        "state",
        "team_count",
        "conversation_count",
        time_column("last_login", gettext_lazy("Last sign-in")),
    )
    list_display_links = ("name_cell",)
    list_filter = ("is_active", "is_staff", "date_joined")
    search_fields = ("name", "email")
    ordering = ("name", "pk")
    fieldsets = (
        (gettext_lazy("Profile"), {"fields": ("name", "email")}),
        (gettext_lazy("Access"), {"fields": ("is_active", "is_staff", "provider", "team_names")}),
        (
            gettext_lazy("Details"),
            {
                "classes": ("side",),
                "fields": (
                    "state",
                    time_column("date_joined", gettext_lazy("Joined")),
                    time_column("last_login", gettext_lazy("Last sign-in")),
                    "conversation_count",
                    "public_id",
                ),
            },
        ),
    )
    form = NameForm

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return self.has_view_permission(request)

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        return (
            super()
            .get_queryset(request)
            .annotate(
                team_total=count_of(Membership, "user"),
                conversation_total=count_of(Conversation, "owner"),
            )
        )

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> list[Any]:
        """Nobody can lock themselves out, and the person who set up the installation keeps their
        rights."""
        editable = ("name", "email", "is_active", "is_staff")
        shown = [name for name in flatten_fieldsets(self.fieldsets) if name not in editable]
        if obj is not None and obj.is_superuser and not request.user.is_superuser:
            return [*shown, *editable]
        if obj is None:
            return shown
        own = ("is_active", "is_staff") if obj.pk == request.user.pk else ()
        managed = ("is_staff",) if access.manager_of_administrator(obj) else ()
        return [*shown, *{*own, *managed}]

    @admin.display(description=gettext_lazy("Name"), ordering="name")
    def name_cell(self, user: User) -> str:
        return cell(user.name or user.email)

    team_count = column("team_total", gettext_lazy("Teams"))
    conversation_count = column("conversation_total", gettext_lazy("Conversations"))

    @admin.display(description=gettext_lazy("State"), ordering="is_active")
    def state(self, user: User) -> SafeString:
        if not user.is_active:
            return badge(gettext("Deactivated"), "bad")
        if user.is_staff:
            return badge(gettext("Administrator"), "accent", "shield")
        return badge(gettext("Active"), "good")

    @admin.display(description=gettext_lazy("Company sign-in"))
    def provider(self, user: User) -> str:
        if manager := access.manager_of_administrator(user):
            text = gettext("%(provider)s, which decides about administrator rights")
            return text % {"provider": cell(manager)}
        return cell(access.providers_of_people([user]).get(user.pk, "")) or "–"

    @admin.display(description=gettext_lazy("Teams"))
    def team_names(self, user: User) -> SafeString | str:
        rows = user.memberships.select_related("team").order_by("team__name")
        teams = (
            (
                reverse("admin:chat_team_change", args=[row.team_id]),
                cell(row.team.name),
                row.get_role_display(),
            )
            for row in rows
        )
        return format_html_join(", ", '<a href="{}">{}</a> ({})', teams) or "–"

    def save_model(
        self, request: HttpRequest, obj: User, form: forms.ModelForm, change: bool
    ) -> None:
        if "is_active" in form.changed_data:
            people.set_active(request.user, obj, is_active=obj.is_active)
        changed = [name for name in form.changed_data if name != "is_active"]
        if not changed:
            return
        obj.email = obj.email.lower()
        obj.save(update_fields=changed)
        if "email" in changed:
            # allauth's record of the old address would still open the account.
            EmailAddress.objects.filter(user=obj).delete()
        values = changed_values(form, changed)
        AuditEvent.objects.record(
            request.user, "user.changed", subject=obj, target=obj.email, **values
        )


class MembershipFormSet(BaseInlineFormSet):
    """A team keeps at least one owner, because nobody else could invite people to it."""

    def add_fields(self, form: forms.ModelForm, index: int | None) -> None:
        """In a table the column heading is no label of a field, so each field gets one."""
        super().add_fields(form, index)
        for field in form.visible_fields():
            widget = field.field.widget
            # The widget around the choice of a related record does not pass its attributes on.
            inner = getattr(widget, "widget", widget)
            inner.attrs["aria-label"] = field.label

    def delete_existing(self, obj: Membership, commit: bool = True) -> None:
        """Ends the membership as the team’s page does, with everything that the person had by it."""
        if commit:
            people.end_membership(obj)

    def clean(self) -> None:
        super().clean()
        if any(self.errors):
            return
        if any(form.instance.pk and "user" in form.changed_data for form in self.forms):
            raise ValidationError(
                gettext(
                    "You can’t change the person in a row. Remove the row and add the other person."
                )
            )
        touched = [
            form.instance
            for form in self.forms
            if form.instance.pk and (form.has_changed() or form in self.deleted_forms)
        ]
        for provider in access.managers_of_memberships(touched).values():
            raise ValidationError(people.managed_text(provider))
        had_owner = Membership.objects.filter(
            team_id=self.instance.pk, role=TeamRole.OWNER
        ).exists()
        kept = [form for form in self.forms if form not in self.deleted_forms]
        if had_owner and not any(_role(form) == TeamRole.OWNER for form in kept):
            raise ValidationError(
                gettext("A team needs at least one owner. Make someone else an owner first.")
            )


def _role(form: forms.ModelForm) -> str | None:
    return form.cleaned_data.get("role") if form.cleaned_data.get("user") else None


class MembershipInline(admin.TabularInline):
    model = Membership
    formset = MembershipFormSet
    fields = ("user", "role", "joined_at")
    readonly_fields = ("joined_at",)
    ordering = ("user__name", "pk")
    extra = 0

    def get_queryset(self, request: HttpRequest) -> QuerySet[Membership]:
        return super().get_queryset(request).select_related("user", "team")

    def has_view_permission(self, request: HttpRequest, obj: Team | None = None) -> bool:
        return bool(request.user.is_active and request.user.is_staff)

    has_add_permission = has_change_permission = has_delete_permission = has_view_permission


_CREATED = time_column("created_at", gettext_lazy("Created"))
_EXPIRES = time_column("expires_at", gettext_lazy("Expires"))
_REVOKED = time_column("revoked_at", gettext_lazy("Revoked"))
_USED = time_column("used_at", gettext_lazy("Used"))
_LAST_USED = time_column("last_used_at", gettext_lazy("Last used"))


class TeamAdmin(ConfirmedChanges):
    """A team cannot be deleted here, because its conversations would be deleted too."""

    summary = gettext_lazy("Teams, their members and roles.")
    icon = "users"
    list_display = (
        "name_cell",
        "member_count",
        "conversation_count",
        _CREATED,
    )
    search_fields = ("name",)
    ordering = ("name", "pk")
    fieldsets = (
        (None, {"fields": ("name",)}),
        (
            gettext_lazy("Details"),
            {"classes": ("side",), "fields": (_CREATED, "conversation_count", "public_id")},
        ),
    )
    readonly_fields = (_CREATED, "conversation_count", "public_id")
    form = NameForm
    inlines = (MembershipInline,)

    def has_add_permission(self, request: HttpRequest, obj: Team | None = None) -> bool:
        return self.has_view_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Team | None = None) -> bool:
        return self.has_view_permission(request)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Team]:
        return (
            super()
            .get_queryset(request)
            .annotate(
                member_total=count_of(Membership, "team"),
                conversation_total=count_of(Conversation, "team"),
            )
        )

    name_cell = column("name", gettext_lazy("Name"))
    member_count = column("member_total", gettext_lazy("Members"))
    conversation_count = column("conversation_total", gettext_lazy("Conversations"))

    def save_model(
        self, request: HttpRequest, obj: Team, form: forms.ModelForm, change: bool
    ) -> None:
        super().save_model(request, obj, form, change)
        if not change:
            AuditEvent.objects.record(request.user, "team.created", target=obj.name)
        elif form.changed_data:
            values = changed_values(form, form.changed_data)
            AuditEvent.objects.record(request.user, "team.changed", target=obj.name, **values)

    def save_formset(
        self, request: HttpRequest, form: forms.ModelForm, formset: BaseInlineFormSet, change: bool
    ) -> None:
        team = formset.instance
        before = dict(team.memberships.values_list("pk", "role"))
        super().save_formset(request, form, formset, change)
        changes = [
            *(("membership.added", row, {"role": row.role}) for row in formset.new_objects),
            *(
                ("membership.role_changed", row, {"before": before.get(row.pk), "after": row.role})
                for row, _ in formset.changed_objects
            ),
            *(("membership.removed", row, {"role": row.role}) for row in formset.deleted_objects),
        ]
        for verb, row, detail in changes:
            AuditEvent.objects.record(
                request.user, verb, subject=row.user, target=team.name, **detail
            )


class InvitationAdmin(AdministratorsOnly):
    """Read-only. Links are created and revoked on the page People, and tokens are stored
    nowhere."""

    summary = gettext_lazy("Invitation links: open, used, revoked or expired.")
    icon = "mail"
    list_display = ("recipient", "state", "team", "role", "invited_by", _CREATED, _EXPIRES)
    list_filter = ("role", ("team", admin.RelatedOnlyFieldListFilter), "created_at")
    list_select_related = ("team", "invited_by")
    search_fields = ("email", "team__name", "invited_by__name", "invited_by__email")
    ordering = ("-pk",)
    fieldsets = (
        (None, {"fields": ("recipient", "state", "team", "role", "invited_by", "joined")}),
        (
            gettext_lazy("Details"),
            {"classes": ("side",), "fields": (_CREATED, _EXPIRES, _USED, _REVOKED)},
        ),
    )

    def title_of(self, row: Invitation) -> str:
        return gettext("Invitation to %(team)s") % {"team": cell(row.team)}

    @admin.display(description=gettext_lazy("For"), ordering="email")
    def recipient(self, invitation: Invitation) -> str:
        return cell(invitation.email) or gettext("Anyone with the link")

    @admin.display(description=gettext_lazy("Joined"))
    def joined(self, invitation: Invitation) -> str:
        """The people who joined; with an older version it was one person, in ``used_by``."""
        people = [use.user for use in invitation.joined.select_related("user")]
        if not people and invitation.used_by is not None:
            people = [invitation.used_by]
        return ", ".join(cell(str(each)) for each in people) or "–"

    @admin.display(description=gettext_lazy("State"))
    def state(self, invitation: Invitation) -> SafeString:
        if invitation.used_at:
            return badge(gettext("Used"))
        if invitation.revoked_at:
            return badge(gettext("Revoked"))
        if invitation.expires_at <= timezone.now():
            return badge(gettext("Expired"))
        return badge(gettext("Open"), "good")


# --- access tokens of all users: what exists, when it was used, and revoking it ------------------


class AccessTokenAdmin(AdministratorsOnly):
    """Read and revoke. Users create their own tokens in the settings. Hashes are never loaded."""

    summary = gettext_lazy("Tokens that programs sign in with, and when they were last used.")
    icon = "key"
    list_display = ("name_cell", "state", "user", "team", _LAST_USED, _CREATED, _EXPIRES)
    list_display_links = ("name_cell",)
    list_filter = ("created_at", ("team", admin.RelatedOnlyFieldListFilter))
    list_select_related = ("user", "team")
    search_fields = ("name", "hint", "user__name", "user__email", "team__name")
    ordering = ("-pk",)
    actions = ("revoke",)
    fieldsets = (
        (None, {"fields": ("name_cell", "state", "user", "team")}),
        (
            gettext_lazy("Details"),
            {
                "classes": ("side",),
                "fields": (_CREATED, _EXPIRES, _LAST_USED, _REVOKED, "public_id"),
            },
        ),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[AccessToken]:
        return super().get_queryset(request).defer("token_hash")

    @admin.display(description=gettext_lazy("Name"), ordering="name")
    def name_cell(self, token: AccessToken) -> str:
        return cell(f"{token.name} (…{token.hint})")

    @admin.display(description=gettext_lazy("State"))
    def state(self, token: AccessToken) -> SafeString:
        if token.revoked_at:
            return badge(gettext("Revoked"))
        if token.expires_at and token.expires_at <= timezone.now():
            return badge(gettext("Expired"))
        if access.usable_tokens().filter(pk=token.pk).exists():
            return badge(gettext("Active"), "good")
        return badge(
            gettext("Inactive"),
            "wait",
            title=gettext("The owner of this token has read-only access."),
        )

    @admin.action(description=gettext_lazy("Revoke selected tokens"))
    def revoke(self, request: HttpRequest, tokens: QuerySet[AccessToken]) -> None:
        ended = sum(revoke_token(request.user, token) for token in tokens)
        if not ended:
            self.message_user(request, gettext("The selected tokens were already revoked."))
            return
        told = ngettext("%(count)d token revoked.", "%(count)d tokens revoked.", ended)
        self.message_user(request, told % {"count": ended})
