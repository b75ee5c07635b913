"""Teams, their members, and invitation links."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy


class TeamRole(models.TextChoices):
    OWNER = "owner", gettext_lazy("Owner")
    ADMIN = "admin", gettext_lazy("Admin")
    MEMBER = "member", gettext_lazy("Member")
    VIEWER = "viewer", gettext_lazy("Viewer")
    # Sees only the conversations that they take part in, and nothing else of the team.
    GUEST = "guest", gettext_lazy("Guest")


# Roles that see the team: its members, projects, groups and shared conversations.
FULL_ROLES = (TeamRole.OWNER, TeamRole.ADMIN, TeamRole.MEMBER, TeamRole.VIEWER)
# Roles that may write in the team's conversations, and roles that may invite and remove members.
WRITING_ROLES = (TeamRole.OWNER, TeamRole.ADMIN, TeamRole.MEMBER)
MANAGING_ROLES = (TeamRole.OWNER, TeamRole.ADMIN)


class Team(models.Model):
    public_id = models.UUIDField(
        gettext_lazy("public ID"), default=uuid.uuid4, unique=True, editable=False
    )
    name = models.CharField(gettext_lazy("name"), max_length=80)
    created_at = models.DateTimeField(gettext_lazy("created"), default=timezone.now, editable=False)
    # How many shared conversations were made private or deleted; lists that show them are then
    # reloaded.
    withdrawals = models.PositiveBigIntegerField(default=0, editable=False)
    # How often a shared conversation got another place in lists, or none, while its time stayed.
    rearrangements = models.PositiveBigIntegerField(default=0, db_default=0, editable=False)
    members = models.ManyToManyField(
        settings.AUTH_USER_MODEL, through="Membership", related_name="teams"
    )

    class Meta:
        verbose_name = gettext_lazy("team")
        verbose_name_plural = gettext_lazy("teams")

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        related_name="memberships",
        verbose_name=gettext_lazy("user"),
    )
    role = models.CharField(
        gettext_lazy("role"), max_length=10, choices=TeamRole.choices, default=TeamRole.MEMBER
    )
    joined_at = models.DateTimeField(gettext_lazy("joined"), default=timezone.now, editable=False)

    class Meta:
        verbose_name = gettext_lazy("member")
        verbose_name_plural = gettext_lazy("members")
        constraints = [models.UniqueConstraint(fields=["team", "user"], name="membership_unique")]

    def __str__(self) -> str:
        return gettext("%(user)s in %(team)s (%(role)s)") % {
            "user": self.user,
            "team": self.team,
            "role": self.get_role_display(),
        }

    @property
    def sees_team(self) -> bool:
        return self.role in FULL_ROLES

    @property
    def may_write(self) -> bool:
        return self.role in WRITING_ROLES

    @property
    def may_manage(self) -> bool:
        return self.role in MANAGING_ROLES


class Invitation(models.Model):
    """A link into a team, for one person or several. Only the SHA-256 of its token is stored."""

    team = models.ForeignKey(
        Team,
        on_delete=models.CASCADE,
        related_name="invitations",
        verbose_name=gettext_lazy("team"),
    )
    role = models.CharField(
        gettext_lazy("role"), max_length=10, choices=TeamRole.choices, default=TeamRole.MEMBER
    )
    email = models.EmailField(
        gettext_lazy("email address"),
        blank=True,
        help_text=gettext_lazy("Leave empty for anyone with the link."),
    )
    token_hash = models.CharField(max_length=64, unique=True, editable=False)
    invited_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        related_name="invitations_made",
        verbose_name=gettext_lazy("invited by"),
    )
    created_at = models.DateTimeField(gettext_lazy("created"), default=timezone.now, editable=False)
    expires_at = models.DateTimeField(gettext_lazy("expires"))
    # How many people may join with the link, and how many have (see `InvitationUse`).
    max_uses = models.PositiveSmallIntegerField(
        gettext_lazy("number of people"), default=1, db_default=1
    )
    uses = models.PositiveSmallIntegerField(
        gettext_lazy("people who joined"), default=0, db_default=0, editable=False
    )
    # When the link was last sent by email.
    sent_at = models.DateTimeField(gettext_lazy("sent"), null=True, blank=True, editable=False)
    # When and by whom it was used up: nobody can join with it any more.
    used_at = models.DateTimeField(gettext_lazy("used"), null=True, blank=True)
    used_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="invitations_used",
        verbose_name=gettext_lazy("used by"),
    )
    revoked_at = models.DateTimeField(gettext_lazy("revoked"), null=True, blank=True)

    class Meta:
        verbose_name = gettext_lazy("invitation")
        verbose_name_plural = gettext_lazy("invitations")

    def __str__(self) -> str:
        return gettext("Invitation to %(team)s (%(role)s)") % {
            "team": self.team,
            "role": self.get_role_display(),
        }

    @property
    def is_open(self) -> bool:
        return self.used_at is None and self.revoked_at is None and self.expires_at > timezone.now()

    @property
    def is_expired(self) -> bool:
        return self.expires_at <= timezone.now()


class InvitationUse(models.Model):
    """A person who joined by an invitation. Those used with an older version only have `Invitation.used_by`."""

    invitation = models.ForeignKey(Invitation, on_delete=models.CASCADE, related_name="joined")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="joined_by"
    )
    at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["invitation", "user"], name="invitation_use_once_per_person"
            )
        ]

    def __str__(self) -> str:
        return f"{self.user_id} by invitation {self.invitation_id}"
