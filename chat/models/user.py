"""A user: signs in by email address, and is shown by name."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import PermissionsMixin
from django.db import models
from django.db.models.functions import Lower, Now
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
    """The events of a live answer that a screen reader announces. Errors and questions are always
    announced."""

    STATES = "states", gettext_lazy("When an answer starts and ends")
    PARAGRAPHS = "paragraphs", gettext_lazy("When an answer starts and ends, and each paragraph")
    ENDS = "ends", gettext_lazy("Only when an answer is complete")


class ReadingWidth(models.TextChoices):
    """The longest line of a conversation."""

    NARROW = "narrow", gettext_lazy("Narrow")
    STANDARD = "", gettext_lazy("Standard")
    WIDE = "wide", gettext_lazy("Wide")
    FULL = "full", gettext_lazy("Full")


class ReadingSize(models.TextChoices):
    """The size of the text of messages and answers."""

    SMALL = "small", gettext_lazy("Small")
    STANDARD = "", gettext_lazy("Standard")
    LARGE = "large", gettext_lazy("Large")
    LARGEST = "largest", gettext_lazy("Largest")


class ReadingDensity(models.TextChoices):
    """The space between lines and between messages."""

    COMPACT = "compact", gettext_lazy("Compact")
    STANDARD = "", gettext_lazy("Standard")
    RELAXED = "relaxed", gettext_lazy("Relaxed")


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
    is_invisible = models.BooleanField(
        gettext_lazy("invisible"),
        default=False,
        db_default=False,
        help_text=gettext_lazy(
            "Others don’t see when you have a conversation open or are writing in it."
        ),
    )
    # The kinds of inbox entries (`chat.web.inbox_sources`) of which the browser does not notify this person.
    muted_kinds = models.CharField(
        max_length=200, blank=True, default="", db_default="", editable=False
    )
    # How this person reads conversations: each page has it on its root element, so that nothing moves while it loads.
    # These settings are here, because each request reads the user anyway.
    reading_width = models.CharField(
        max_length=10,
        choices=ReadingWidth.choices,
        blank=True,
        default=ReadingWidth.STANDARD,
        db_default="",
        editable=False,
    )
    reading_size = models.CharField(
        max_length=10,
        choices=ReadingSize.choices,
        blank=True,
        default=ReadingSize.STANDARD,
        db_default="",
        editable=False,
    )
    reading_density = models.CharField(
        max_length=10,
        choices=ReadingDensity.choices,
        blank=True,
        default=ReadingDensity.STANDARD,
        db_default="",
        editable=False,
    )
    wraps_code = models.BooleanField(default=False, db_default=False, editable=False)
    # Conversations that the person has never opened are unread if they have changed since then. For accounts
    # of an older version it is the time of the update.
    unread_since = models.DateTimeField(default=timezone.now, db_default=Now(), editable=False)
    # How often this person has changed their pins, or the place of a private conversation: part of the version
    # of their sidebar.
    pin_changes = models.PositiveBigIntegerField(default=0, db_default=0, editable=False)
    # Part of the address of the person's picture, so that browsers may keep it; empty without a picture. It
    # stands here because pages with an author's name have read this row anyway.
    picture_version = models.CharField(
        max_length=16, blank=True, default="", db_default="", editable=False
    )
    # A name of the IANA database. Empty: that of the browser.
    time_zone = models.CharField(
        gettext_lazy("time zone"), max_length=64, blank=True, default="", db_default=""
    )
    # True with an authenticator app or a passkey. It is here, because each request has to know it.
    has_second_factor = models.BooleanField(default=False, db_default=False, editable=False)
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

    @property
    def reading(self) -> str:
        """The values of the reading settings that aren't standard, as pages and style sheets have them."""
        chosen = (self.reading_width, self.reading_size, self.reading_density)
        return " ".join(each for each in chosen if each)

    def get_full_name(self) -> str:
        return self.name

    def get_short_name(self) -> str:
        return self.name.split(" ")[0] if self.name else self.email


class InstructionsUse(models.TextChoices):
    """The conversations in which a person's instructions are sent with their messages."""

    ALL = "all", gettext_lazy("In all conversations")
    PRIVATE = "private", gettext_lazy("Only in private conversations")
    NEVER = "never", gettext_lazy("Never")


class PersonalInstructions(models.Model):
    """A text for models: facts about a person, and how answers should be. It is a row of its own, because each request
    reads the user."""

    user = models.OneToOneField(
        User, on_delete=models.CASCADE, primary_key=True, related_name="personal_instructions"
    )
    text = models.TextField()
    use = models.CharField(
        max_length=10, choices=InstructionsUse.choices, default=InstructionsUse.ALL
    )

    def __str__(self) -> str:
        return f"instructions of {self.user_id}"
