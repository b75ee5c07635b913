"""Access tokens of all people: what exists, what was used when, and an end to it."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from chat.actions.tokens import revoke_token
from chat.admin.base import AdministratorsOnly, cell
from chat.models import AccessToken


class AccessTokenAdmin(AdministratorsOnly):
    """To look at and to revoke; people make their own in the settings. No hash is ever read."""

    summary = "What programs sign in with: whose, where they reach, when they were used."
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

    @admin.display(description="name", ordering="name")
    def name_cell(self, token: AccessToken) -> str:
        return cell(f"{token.name} (…{token.hint})")

    @admin.display(description="state")
    def state(self, token: AccessToken) -> str:
        if token.revoked_at:
            return "Revoked"
        if token.expires_at and token.expires_at <= timezone.now():
            return "Expired"
        is_usable = AccessToken.objects.usable().filter(pk=token.pk).exists()
        return "Good" if is_usable else "Does not work: its person may not write in the team"

    @admin.action(description="Revoke: end these tokens at once")
    def revoke(self, request: HttpRequest, tokens: QuerySet[AccessToken]) -> None:
        ended = sum(revoke_token(request.user, token) for token in tokens)
        self.message_user(request, f"{ended} revoked." if ended else "They were revoked already.")
