"""Accounts in the administration: users, teams with members, invitations, access tokens."""

from __future__ import annotations

from allauth.account.models import EmailAddress
from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.forms import BaseInlineFormSet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy, ngettext

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
from chat.web.admin import AdministratorsOnly, cell, changed_values, count_of


class NameForm(forms.ModelForm):
    """A name must be one visible line, also when an administrator types it."""

    def clean_name(self) -> str:
        name = one_line(self.cleaned_data["name"])
        check_name(name)
        return name


class UserAdmin(AdministratorsOnly):
    """Users join by invitation and are deactivated, never deleted, because their messages would be
    deleted too."""

    summary = gettext_lazy("Accounts, administrators and deactivated users.")
    list_display = (
        "name_cell",
        "email",
        "is_active",
        "is_staff",
        "team_count",
        "conversation_count",
        "last_login",
    )
    list_display_links = ("name_cell",)
    list_filter = ("is_active", "is_staff", "date_joined")
    search_fields = ("name", "email")
    ordering = ("name", "pk")
    fields = (
        "name",
        "email",
        "is_active",
        "is_staff",
        "announcements",
        "team_names",
        "public_id",
        "date_joined",
        "last_login",
    )
    readonly_fields = ("announcements", "team_names", "public_id", "date_joined", "last_login")
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

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> tuple[str, ...]:
        """Nobody can lock themselves out, and the person who set up the installation keeps their
        rights."""
        if obj is not None and obj.is_superuser and not request.user.is_superuser:
            return self.fields
        own = ("is_active", "is_staff") if obj is not None and obj.pk == request.user.pk else ()
        return (*self.readonly_fields, *own)

    @admin.display(description=gettext_lazy("Name"), ordering="name")
    def name_cell(self, user: User) -> str:
        return cell(user.name or user.email)

    @admin.display(description=gettext_lazy("Teams"), ordering="team_total")
    def team_count(self, user: User) -> int:
        return user.team_total  # type: ignore[attr-defined]

    @admin.display(description=gettext_lazy("Conversations"), ordering="conversation_total")
    def conversation_count(self, user: User) -> int:
        return user.conversation_total  # type: ignore[attr-defined]

    @admin.display(description=gettext_lazy("Teams"))
    def team_names(self, user: User) -> str:
        rows = user.memberships.select_related("team").order_by("team__name")
        return cell(", ".join(f"{row.team.name} ({row.get_role_display()})" for row in rows))

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

    def clean(self) -> None:
        super().clean()
        if any(self.errors):
            return
        if any(form.instance.pk and "user" in form.changed_data for form in self.forms):
            raise ValidationError(
                gettext(
                    "The person of a row can’t be changed. Remove the row and add the other person."
                )
            )
        had_owner = Membership.objects.filter(
            team_id=self.instance.pk, role=TeamRole.OWNER
        ).exists()
        kept = [form for form in self.forms if form not in self.deleted_forms]
        if had_owner and not any(_role(form) == TeamRole.OWNER for form in kept):
            raise ValidationError(
                gettext("A team needs an owner. Make another member the owner first.")
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

    def _may(self, request: HttpRequest) -> bool:
        return bool(request.user.is_active and request.user.is_staff)

    def has_view_permission(self, request: HttpRequest, obj: Team | None = None) -> bool:
        return self._may(request)

    def has_add_permission(self, request: HttpRequest, obj: Team | None = None) -> bool:
        return self._may(request)

    def has_change_permission(self, request: HttpRequest, obj: Team | None = None) -> bool:
        return self._may(request)

    def has_delete_permission(self, request: HttpRequest, obj: Team | None = None) -> bool:
        return self._may(request)


class TeamAdmin(AdministratorsOnly):
    """A team cannot be deleted here, because its conversations would be deleted too."""

    summary = gettext_lazy("Teams, their members and roles.")
    list_display = ("name_cell", "member_count", "conversation_count", "created_at")
    search_fields = ("name",)
    ordering = ("name", "pk")
    fields = ("name", "public_id", "created_at")
    readonly_fields = ("public_id", "created_at")
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

    @admin.display(description=gettext_lazy("Name"), ordering="name")
    def name_cell(self, team: Team) -> str:
        return cell(team.name)

    @admin.display(description=gettext_lazy("Members"), ordering="member_total")
    def member_count(self, team: Team) -> int:
        return team.member_total  # type: ignore[attr-defined]

    @admin.display(description=gettext_lazy("Conversations"), ordering="conversation_total")
    def conversation_count(self, team: Team) -> int:
        return team.conversation_total  # type: ignore[attr-defined]

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
    list_display = ("team", "role", "email", "invited_by", "state", "created_at", "expires_at")
    list_filter = ("role", ("team", admin.RelatedOnlyFieldListFilter), "created_at")
    list_select_related = ("team", "invited_by")
    search_fields = ("email", "team__name", "invited_by__name", "invited_by__email")
    ordering = ("-pk",)
    fields = (
        "team",
        "role",
        "email",
        "invited_by",
        "state",
        "created_at",
        "expires_at",
        "used_at",
        "used_by",
        "revoked_at",
    )

    @admin.display(description=gettext_lazy("State"))
    def state(self, invitation: Invitation) -> str:
        if invitation.used_at:
            return gettext("Used")
        if invitation.revoked_at:
            return gettext("Revoked")
        return gettext("Open") if invitation.expires_at > timezone.now() else gettext("Expired")


# --- access tokens of all users: what exists, when it was used, and revoking it ------------------


class AccessTokenAdmin(AdministratorsOnly):
    """Read and revoke. Users create their own tokens in the settings. Hashes are never loaded."""

    summary = gettext_lazy("Tokens that programs sign in with, and when they were last used.")
    list_display = (
        "name_cell",
        "user",
        "team",
        "state",
        "last_used_at",
        "created_at",
        "expires_at",
    )
    list_display_links = ("name_cell",)
    list_filter = ("created_at", ("team", admin.RelatedOnlyFieldListFilter))
    list_select_related = ("user", "team")
    search_fields = ("name", "hint", "user__name", "user__email", "team__name")
    ordering = ("-pk",)
    actions = ("revoke",)
    fields = (
        "name_cell",
        "user",
        "team",
        "state",
        "created_at",
        "expires_at",
        "last_used_at",
        "revoked_at",
        "public_id",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[AccessToken]:
        return super().get_queryset(request).defer("token_hash")

    @admin.display(description=gettext_lazy("Name"), ordering="name")
    def name_cell(self, token: AccessToken) -> str:
        return cell(f"{token.name} (…{token.hint})")

    @admin.display(description=gettext_lazy("State"))
    def state(self, token: AccessToken) -> str:
        if token.revoked_at:
            return gettext("Revoked")
        if token.expires_at and token.expires_at <= timezone.now():
            return gettext("Expired")
        is_usable = AccessToken.objects.usable().filter(pk=token.pk).exists()
        return (
            gettext("Active") if is_usable else gettext("Inactive (its owner has read-only access)")
        )

    @admin.action(description=gettext_lazy("Revoke selected tokens"))
    def revoke(self, request: HttpRequest, tokens: QuerySet[AccessToken]) -> None:
        ended = sum(revoke_token(request.user, token) for token in tokens)
        if not ended:
            self.message_user(request, gettext("The selected tokens were already revoked."))
            return
        told = ngettext("%(count)d token revoked.", "%(count)d tokens revoked.", ended)
        self.message_user(request, told % {"count": ended})
