"""The accounts of people at tool servers (OAuth), and what signing in needs."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat.core import encryption
from chat.models.question import Question
from chat.models.team import Team
from chat.models.tool import ToolServer


class ClientSource(models.TextChoices):
    """How an authorization server came to know this installation."""

    ENTERED = "entered", gettext_lazy("Entered by an administrator")
    DOCUMENT = "document", gettext_lazy("Client ID metadata document")
    DYNAMIC = "dynamic", gettext_lazy("Registered automatically")


class OAuthClient(models.Model):
    """This installation as a client of one authorization server, for one team. Its id and secret are never used at
    another issuer."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="oauth_clients")
    issuer = models.CharField(max_length=500)
    source = models.CharField(max_length=10, choices=ClientSource.choices)
    client_id = models.CharField(max_length=500)
    sealed_secret = models.TextField(blank=True, editable=False)
    # `none`, `client_secret_post` or `client_secret_basic`.
    auth_method = models.CharField(max_length=40, default="none")
    # The address that it was registered with.
    redirect_uri = models.CharField(max_length=500)
    expires_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["team", "issuer", "client_id"], name="oauth_client_unique"
            )
        ]

    def __str__(self) -> str:
        return f"{self.client_id} at {self.issuer}"

    def set_secret(self, secret: str) -> None:
        """Encrypts the secret into the row (not saved)."""
        self.sealed_secret = encryption.encrypt(secret, context=self._context) if secret else ""

    def open_secret(self) -> str:
        """The secret in plain text. Raises ``DecryptionError``."""
        if not self.sealed_secret:
            return ""
        return encryption.decrypt(self.sealed_secret, context=self._context)

    @property
    def _context(self) -> str:
        return f"oauth-client:{self.team_id}:{self.issuer}:{self.client_id}"


class ToolAccount(models.Model):
    """A person's account at a tool server. Its tokens change by compare-and-swap of ``version``."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="tool_accounts"
    )
    server = models.ForeignKey(ToolServer, on_delete=models.CASCADE, related_name="accounts")
    client = models.ForeignKey(OAuthClient, on_delete=models.CASCADE, related_name="accounts")
    issuer = models.CharField(max_length=500)
    # The address that the tokens are for, and those of the issuer that take them.
    resource = models.CharField(max_length=500)
    token_endpoint = models.CharField(max_length=500)
    revocation_endpoint = models.CharField(max_length=500, blank=True)
    scope = models.CharField(max_length=2000, blank=True)
    # The scopes that the server wants in addition for its list of tools, by spaces.
    needed_scope = models.CharField(max_length=2000, blank=True, default="", db_default="")
    # {"access", "refresh"}, encrypted.
    sealed_tokens = models.TextField(editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    version = models.PositiveIntegerField(default=1)
    # The process that refreshes the tokens of this version, and since when.
    refresh_claim = models.UUIDField(null=True, editable=False)
    refresh_claimed_at = models.DateTimeField(null=True, editable=False)
    # A sentence for the person, in English, if they have to sign in again.
    problem = models.CharField(max_length=200, blank=True)
    connected_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["person", "server"], name="tool_account_unique")
        ]

    def __str__(self) -> str:
        return f"{self.person} at {self.server}"

    def set_tokens(self, *, access: str, refresh: str) -> None:
        """Encrypts the tokens into the row (not saved)."""
        body = json.dumps({"access": access, "refresh": refresh})
        self.sealed_tokens = encryption.encrypt(body, context=self._context)

    def open_tokens(self) -> Mapping[str, str]:
        """``access`` and ``refresh``, the latter empty if there is none. Raises ``DecryptionError``."""
        tokens: dict[str, str] = json.loads(
            encryption.decrypt(self.sealed_tokens, context=self._context)
        )
        return tokens

    @property
    def _context(self) -> str:
        return f"tool-account:{self.public_id}:{self.issuer}:{self.resource}"


class ToolSignIn(models.Model):
    """A sign-in at an authorization server that has begun. It is deleted when it is used, and valid for an hour."""

    # A digest of the state in the address: the row alone opens nothing.
    state_digest = models.CharField(max_length=64, unique=True)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    server = models.ForeignKey(ToolServer, on_delete=models.CASCADE, related_name="sign_ins")
    client = models.ForeignKey(OAuthClient, on_delete=models.CASCADE, related_name="+")
    # The card that it began at; none: a page of settings.
    question = models.ForeignKey(Question, null=True, on_delete=models.SET_NULL, related_name="+")
    # It began at the server's page, whose tools are to be read with the account.
    is_for_listing = models.BooleanField(default=False)
    # The PKCE verifier, encrypted.
    sealed_verifier = models.TextField(editable=False)
    issuer = models.CharField(max_length=500)
    must_name_issuer = models.BooleanField(default=False)
    resource = models.CharField(max_length=500)
    token_endpoint = models.CharField(max_length=500)
    revocation_endpoint = models.CharField(max_length=500, blank=True)
    redirect_uri = models.CharField(max_length=500)
    scope = models.CharField(max_length=2000, blank=True)
    began_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"sign-in of {self.person_id} at {self.server_id}"

    def set_verifier(self, verifier: str) -> None:
        """Encrypts the verifier into the row (not saved)."""
        self.sealed_verifier = encryption.encrypt(verifier, context=self._context)

    def open_verifier(self) -> str:
        """The verifier in plain text. Raises ``DecryptionError``."""
        return encryption.decrypt(self.sealed_verifier, context=self._context)

    @property
    def _context(self) -> str:
        return f"tool-sign-in:{self.state_digest}"
