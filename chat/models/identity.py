"""Sign-in over OpenID Connect: providers, what their groups mean here, and the people who come from them."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat.core import encryption
from chat.models.participant import Group
from chat.models.team import Membership, Team, TeamRole

USUAL_SCOPES = "openid profile email"
# The end of a session that began at a provider, in the session's data, in seconds since 1970.
PROVIDER_ENDS_AT = "provider_ends_at"


class SignUp(models.TextChoices):
    """The policy for somebody without an account who signs in."""

    INVITED = "invited", gettext_lazy("Only people with an invitation get an account")
    OPEN = "open", gettext_lazy("Everyone whom the provider lets in gets an account")


class IdentityProvider(models.Model):
    """An OpenID Connect provider, such as Keycloak or Entra ID."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    # Its name in addresses, which is registered at the provider and never changes.
    slug = models.SlugField(max_length=40, unique=True)
    name = models.CharField(max_length=80)
    issuer = models.CharField(max_length=500)
    client_id = models.CharField(max_length=500)
    sealed_secret = models.TextField(blank=True, editable=False)
    scopes = models.CharField(max_length=500, default=USUAL_SCOPES)
    is_enabled = models.BooleanField(default=False)
    # `OIDC_PROVIDERS` names it: name, issuer, client and scopes are changed there only.
    is_from_environment = models.BooleanField(default=False)
    # Every address that the provider names is that of the person, as in a directory of a company.
    proves_addresses = models.BooleanField(default=False)
    # The path of the claim with the groups of a person; empty: there is none.
    groups_claim = models.CharField(max_length=200, blank=True)
    sign_up = models.CharField(max_length=10, choices=SignUp.choices, default=SignUp.INVITED)
    # Domains of addresses, by spaces; empty: all.
    domains = models.CharField(max_length=1000, blank=True)
    # The team of new people, if none of their groups leads to one.
    default_team = models.ForeignKey(Team, null=True, on_delete=models.SET_NULL, related_name="+")
    default_role = models.CharField(
        max_length=10, choices=TeamRole.choices, default=TeamRole.MEMBER
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["name", "pk"]

    def __str__(self) -> str:
        return self.name

    def set_secret(self, secret: str) -> None:
        """Encrypts the secret into the row (not saved)."""
        self.sealed_secret = encryption.encrypt(secret, context=self._context) if secret else ""

    def open_secret(self) -> str:
        """The client secret in plain text; empty if there is none. Raises ``DecryptionError``."""
        if self.is_from_environment:
            return str(settings.OIDC_PROVIDERS.get(self.slug, {}).get("client_secret", ""))
        if not self.sealed_secret:
            return ""
        return encryption.decrypt(self.sealed_secret, context=self._context)

    @property
    def has_secret(self) -> bool:
        if self.is_from_environment:
            return bool(settings.OIDC_PROVIDERS.get(self.slug, {}).get("client_secret"))
        return bool(self.sealed_secret)

    @property
    def _context(self) -> str:
        return f"identity-provider:{self.public_id}:{self.issuer}"


class GroupRule(models.Model):
    """The meaning of a group (or role) of a provider: a role in a team, a group of the team, administrator rights."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    provider = models.ForeignKey(IdentityProvider, on_delete=models.CASCADE, related_name="rules")
    # The group as the claim names it. Groups below it count, too: `/sales` stands for `/sales/europe`.
    claimed = models.CharField(max_length=200)
    team = models.ForeignKey(Team, null=True, on_delete=models.CASCADE, related_name="+")
    role = models.CharField(max_length=10, choices=TeamRole.choices, default=TeamRole.MEMBER)
    group = models.ForeignKey(Group, null=True, on_delete=models.CASCADE, related_name="+")
    makes_administrator = models.BooleanField(default=False)

    class Meta:
        ordering = ["claimed", "pk"]
        constraints = [
            models.CheckConstraint(
                condition=Q(team__isnull=False) | Q(makes_administrator=True),
                name="group_rule_means_something",
            )
        ]

    def __str__(self) -> str:
        return f"{self.claimed}: {self.team_id or 'administrator'}"


class Identity(models.Model):
    """A person at a provider. Their rights here are those of their groups there, as of the last sign-in."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    provider = models.ForeignKey(
        IdentityProvider, on_delete=models.CASCADE, related_name="identities"
    )
    sub = models.CharField(max_length=255)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="identities"
    )
    # The address at the provider, for administrators.
    email = models.CharField(max_length=254, blank=True)
    groups = models.JSONField(default=list)
    # The provider decides whether the person is an administrator.
    manages_administrator = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    last_sign_in = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name_plural = "identities"
        constraints = [
            models.UniqueConstraint(fields=["provider", "sub"], name="identity_sub_unique"),
            models.UniqueConstraint(fields=["provider", "user"], name="identity_user_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} at {self.provider_id}"


class ManagedMembership(models.Model):
    """A membership whose role comes from a provider, so that nobody changes it here."""

    membership = models.OneToOneField(
        Membership, on_delete=models.CASCADE, primary_key=True, related_name="managed"
    )
    identity = models.ForeignKey(Identity, on_delete=models.CASCADE, related_name="memberships")

    def __str__(self) -> str:
        return f"membership {self.membership_id} by {self.identity_id}"


class ProviderSession(models.Model):
    """A session that began at a provider, which may end it (OpenID Connect Back-Channel Logout)."""

    identity = models.ForeignKey(Identity, on_delete=models.CASCADE, related_name="sessions")
    # The key in Django's table, where it stands in the clear as well.
    session_key = models.CharField(max_length=40, unique=True)
    # The session at the provider; empty if it doesn't tell.
    sid = models.CharField(max_length=255, blank=True)
    began_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        indexes = [models.Index(fields=["sid"], name="provider_session_sid")]

    def __str__(self) -> str:
        return f"session of {self.identity_id}"


class SignInPurpose(models.TextChoices):
    SIGN_IN = "sign_in", gettext_lazy("Sign in")
    CONNECT = "connect", gettext_lazy("Connect to an account")
    TRIAL = "trial", gettext_lazy("Trial by an administrator")


class ProviderSignIn(models.Model):
    """A sign-in at a provider that has begun. It is deleted when it is used, and valid for an hour."""

    # Digests of the state in the address, and of the cookie that the browser got with it.
    state_digest = models.CharField(max_length=64, unique=True)
    browser_digest = models.CharField(max_length=64)
    provider = models.ForeignKey(IdentityProvider, on_delete=models.CASCADE, related_name="+")
    purpose = models.CharField(max_length=10, choices=SignInPurpose.choices)
    # The person who connects the account, or tries.
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="+"
    )
    nonce = models.CharField(max_length=64)
    # The PKCE verifier, encrypted.
    sealed_verifier = models.TextField(editable=False)
    # The provider's at the beginning.
    issuer = models.CharField(max_length=500)
    client_id = models.CharField(max_length=500)
    # A path of this installation.
    next_path = models.CharField(max_length=500, blank=True)
    began_at = models.DateTimeField(default=timezone.now, db_index=True)

    def __str__(self) -> str:
        return f"sign-in at {self.provider_id}"

    def set_verifier(self, verifier: str) -> None:
        """Encrypts the verifier into the row (not saved)."""
        self.sealed_verifier = encryption.encrypt(verifier, context=self._context)

    def open_verifier(self) -> str:
        """The verifier in plain text. Raises ``DecryptionError``."""
        return encryption.decrypt(self.sealed_verifier, context=self._context)

    @property
    def _context(self) -> str:
        return f"provider-sign-in:{self.state_digest}"


class PasswordSetting(models.Model):
    """Sign-in with a password, for the whole installation. It has one row at most; without it passwords work."""

    ONLY = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=ONLY)
    is_on = models.BooleanField(default=True)
    # The account whose password always works. Each sign-in with it is recorded.
    emergency_account = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="password_setting_only")]

    def __str__(self) -> str:
        return f"passwords {'on' if self.is_on else 'off'}"
