"""A user: signs in by email address, and is shown by name."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import PermissionsMixin
from django.db import models
from django.db.models.functions import Lower
from django.utils import timezone
from django.utils.translation import gettext_lazy


class UserManager(BaseUserManager["User"]):
    def create_user(self, email: str, password: str | None = None, **fields: Any) -> User:
        user = self.model(email=self.normalize_email(email).lower(), **fields)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def create_superuser(self, email: str, password: str | None = None, **fields: Any) -> User:
        return self.create_user(email, password, is_staff=True, is_superuser=True, **fields)


class Announcements(models.TextChoices):
    """What a screen reader announces of a live answer. Errors and questions are always
    announced."""

    STATES = "states", gettext_lazy("Status changes")
    PARAGRAPHS = "paragraphs", gettext_lazy("Status changes and each paragraph of the answer")
    ENDS = "ends", gettext_lazy("Only when an answer is complete")


class User(AbstractBaseUser, PermissionsMixin):
    public_id = models.UUIDField(
        gettext_lazy("public ID"), default=uuid.uuid4, unique=True, editable=False
    )
    email = models.EmailField(gettext_lazy("email address"), unique=True)
    name = models.CharField(gettext_lazy("name"), max_length=80)
    is_active = models.BooleanField(
        gettext_lazy("active"),
        default=True,
        help_text=gettext_lazy(
            "Deactivate an account instead of deleting it. The person is signed out immediately."
        ),
    )
    is_staff = models.BooleanField(
        gettext_lazy("administrator"),
        default=False,
        help_text=gettext_lazy("Can use Administration and change all settings."),
    )
    announcements = models.CharField(
        gettext_lazy("screen reader announcements"),
        max_length=10,
        choices=Announcements.choices,
        default=Announcements.STATES,
    )
    # How often this person has changed their pins: part of the version of their sidebar.
    pin_changes = models.PositiveBigIntegerField(default=0, db_default=0, editable=False)
    date_joined = models.DateTimeField(gettext_lazy("joined"), default=timezone.now)

    objects: ClassVar[UserManager] = UserManager()

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS = ["name"]

    class Meta:
        verbose_name = gettext_lazy("user")
        verbose_name_plural = gettext_lazy("users")
        constraints = [models.UniqueConstraint(Lower("email"), name="user_email_unique_lower")]

    def __str__(self) -> str:
        return self.name or self.email

    def get_full_name(self) -> str:
        return self.name

    def get_short_name(self) -> str:
        return self.name.split(" ")[0] if self.name else self.email
