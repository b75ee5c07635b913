"""A user: signs in by e-mail address, and is shown by name."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import PermissionsMixin
from django.db import models
from django.db.models.functions import Lower
from django.utils import timezone


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

    STATES = "states", "What happens"
    PARAGRAPHS = "paragraphs", "What happens, and the answer paragraph by paragraph"
    ENDS = "ends", "Only that an answer is complete"


class User(AbstractBaseUser, PermissionsMixin):
    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    email = models.EmailField("e-mail address", unique=True)
    name = models.CharField(max_length=80)
    is_active = models.BooleanField(
        default=True, help_text="Switch off instead of deleting: ends every session at once."
    )
    is_staff = models.BooleanField(
        "administrator", default=False, help_text="May use the admin panel and the settings."
    )
    announcements = models.CharField(
        max_length=10, choices=Announcements.choices, default=Announcements.STATES
    )
    date_joined = models.DateTimeField(default=timezone.now)

    objects: ClassVar[UserManager] = UserManager()

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS = ["name"]

    class Meta:
        constraints = [models.UniqueConstraint(Lower("email"), name="user_email_unique_lower")]

    def __str__(self) -> str:
        return self.name or self.email

    def get_full_name(self) -> str:
        return self.name

    def get_short_name(self) -> str:
        return self.name.split(" ")[0] if self.name else self.email
