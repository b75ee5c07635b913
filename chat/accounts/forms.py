"""Forms for set-up, sign-up, invitations, profiles and access tokens."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.validators import validate_email
from django.db.models import QuerySet
from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy

from chat.accounts.actions.invitations import ADDRESSES_LIMIT, DAYS_LIMIT, PEOPLE_LIMIT
from chat.core.time_zones import zone_names
from chat.models import (
    Announcements,
    InstructionsUse,
    PersonalInstructions,
    ReadingDensity,
    ReadingSize,
    ReadingWidth,
    Team,
    TeamRole,
    User,
)
from chat.web.forms import NameField, WordsField

# The size of the column; the form field's own limit is larger.
EMAIL_LENGTH = 254
# Longer than any typed password, and short enough to compare with names and lists.
PASSWORD_LENGTH = 1000
# Each request carries them.
INSTRUCTIONS_LENGTH = 10_000


class PersonForm(forms.Form):
    """A new user: the name that others see, the address to sign in with, and a password."""

    name = NameField(
        label=gettext_lazy("Your name"),
        widget=forms.TextInput(attrs={"autocomplete": "name"}),
    )
    email = forms.EmailField(
        label=gettext_lazy("Email address"),
        max_length=EMAIL_LENGTH,
        widget=forms.EmailInput(attrs={"autocomplete": "username"}),
        help_text=gettext_lazy("You sign in with this address."),
    )
    password = forms.CharField(
        label=gettext_lazy("Password"),
        strip=False,
        max_length=PASSWORD_LENGTH,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=gettext_lazy(
            "At least 10 characters. A few unrelated words are easy to remember."
        ),
    )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if password := cleaned.get("password"):
            person = User(name=cleaned.get("name", ""), email=cleaned.get("email", ""))
            try:
                validate_password(password, person)
            except forms.ValidationError as error:
                self.add_error("password", error)
        return cleaned


class SetupForm(PersonForm):
    team_name = NameField(
        label=gettext_lazy("Team name"),
        initial=gettext_lazy("Team"),
        help_text=gettext_lazy("You can invite people later."),
    )


class InvitedForm(PersonForm):
    """Joining by a link. If the invitation names an address, the account gets that address."""

    def __init__(self, *args: Any, bound_email: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if bound_email:
            # The field is disabled, so the initial value counts, whatever a client sends.
            self.fields["email"].disabled = True
            self.initial["email"] = bound_email


class InviteForm(forms.Form):
    """Addresses, one invitation for each, or a link for a number of people."""

    emails = forms.CharField(
        label=gettext_lazy("Email addresses"),
        required=False,
        # With names and signs between them, as mail programs copy them.
        max_length=ADDRESSES_LIMIT * (EMAIL_LENGTH + 100),
        widget=forms.Textarea(attrs={"rows": 3, "autocomplete": "off", "spellcheck": "false"}),
        help_text=gettext_lazy(
            "Separate several with commas or line breaks. Leave empty to create a link for anyone."
        ),
    )
    role = forms.ChoiceField(label=gettext_lazy("Role"))
    days = forms.IntegerField(
        label=gettext_lazy("Expires after (days)"),
        min_value=1,
        max_value=DAYS_LIMIT,
    )
    people = forms.IntegerField(
        label=gettext_lazy("People per link"),
        required=False,
        min_value=1,
        max_value=PEOPLE_LIMIT,
        help_text=gettext_lazy("How many people can join with a link that has no address."),
    )

    def __init__(self, *args: Any, team: Team, roles: tuple[TeamRole, ...], **kwargs: Any) -> None:
        kwargs.setdefault("auto_id", f"invite-{team.public_id.hex}-%s")
        super().__init__(*args, **kwargs)
        self.fields["role"].choices = [(role.value, role.label) for role in roles]
        self.initial |= {
            "role": TeamRole.MEMBER,
            "days": int(settings.INVITATION_DAYS),
            "people": 1,
        }

    def clean_emails(self) -> list[str]:
        """The addresses in small letters, each once. Also takes what mail programs copy: ``Name <address>``."""
        text = self.cleaned_data["emails"]
        found = [address for address in _ADDRESSES_APART.split(text) if address.strip()]
        emails = list(dict.fromkeys(_bare(each).lower() for each in found))
        if len(emails) > ADDRESSES_LIMIT:
            raise forms.ValidationError(
                gettext("You can invite up to %(count)d people at once.")
                % {"count": ADDRESSES_LIMIT}
            )
        if wrong := [each for each in emails if not _is_address(each)]:
            raise forms.ValidationError(
                gettext("Not an email address: %(addresses)s")
                % {"addresses": ", ".join(each[:80] for each in wrong)}
            )
        return emails

    def clean_people(self) -> int:
        return self.cleaned_data["people"] or 1

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("emails") and cleaned.get("people", 1) > 1:
            self.add_error(
                "people", gettext("An invitation by email address is for one person each.")
            )
        return cleaned


_ADDRESSES_APART = re.compile(r"[,;\n\r]+")


def _bare(text: str) -> str:
    """The address in ``Name <address>``."""
    inner = re.search(r"<([^<>]*)>\s*$", text)
    return (inner[1] if inner else text).strip()


def _is_address(text: str) -> bool:
    try:
        validate_email(text)
    except forms.ValidationError:
        return False
    return len(text) <= EMAIL_LENGTH


class RoleForm(forms.Form):
    role = forms.ChoiceField(choices=TeamRole.choices)


class TeamForm(forms.Form):
    name = NameField(label=gettext_lazy("Team name"))


class ProfileForm(forms.Form):
    name = NameField(
        label=gettext_lazy("Your name"),
        help_text=gettext_lazy("Shown to your team with your messages."),
        widget=forms.TextInput(attrs={"autocomplete": "name"}),
    )


class TimeZoneForm(forms.Form):
    time_zone = forms.ChoiceField(
        label=gettext_lazy("Show times in"),
        required=False,
        help_text=gettext_lazy("Applies to all your devices."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = ((name, name.replace("_", " ")) for name in zone_names())
        self.fields["time_zone"].choices = [("", gettext("Same as the browser")), *names]

    @classmethod
    def of(cls, user: User) -> TimeZoneForm:
        return cls(initial={"time_zone": user.time_zone})


class SignOutForm(forms.Form):
    with_tokens = forms.BooleanField(
        label=gettext_lazy("Also revoke these access tokens"),
        required=False,
        help_text=gettext_lazy("Programs that use them lose access immediately."),
    )


class AnnouncementsForm(forms.Form):
    announcements = forms.TypedChoiceField(
        label=gettext_lazy("While an answer is being written"),
        choices=Announcements.choices,
        coerce=Announcements,
        help_text=gettext_lazy("Errors and questions are always announced."),
    )

    @classmethod
    def of(cls, user: User) -> AnnouncementsForm:
        return cls(initial={"announcements": user.announcements})


class InvisibleForm(forms.Form):
    is_invisible = forms.BooleanField(
        label=gettext_lazy("Appear invisible"),
        required=False,
        help_text=gettext_lazy(
            "Others don’t see when you have a conversation open or are writing in it."
        ),
    )

    @classmethod
    def of(cls, user: User) -> InvisibleForm:
        return cls(initial={"is_invisible": user.is_invisible})


class CodeWrapForm(forms.Form):
    wraps_code = forms.BooleanField(label=gettext_lazy("Wrap long lines of code"), required=False)


class ReadingForm(CodeWrapForm):
    """How the person reads conversations, on all of their devices. Empty values are standard."""

    width = forms.TypedChoiceField(
        label=gettext_lazy("Width"),
        choices=ReadingWidth.choices,
        coerce=ReadingWidth,
        empty_value=ReadingWidth.STANDARD,
        required=False,
        widget=forms.RadioSelect,
    )
    size = forms.TypedChoiceField(
        label=gettext_lazy("Text size"),
        choices=ReadingSize.choices,
        coerce=ReadingSize,
        empty_value=ReadingSize.STANDARD,
        required=False,
        widget=forms.RadioSelect,
    )
    density = forms.TypedChoiceField(
        label=gettext_lazy("Density"),
        choices=ReadingDensity.choices,
        coerce=ReadingDensity,
        empty_value=ReadingDensity.STANDARD,
        required=False,
        widget=forms.RadioSelect,
    )
    field_order = ("width", "size", "density", "wraps_code")

    @classmethod
    def of(cls, user: User) -> ReadingForm:
        return cls(
            initial={
                "width": user.reading_width,
                "size": user.reading_size,
                "density": user.reading_density,
                "wraps_code": user.wraps_code,
            }
        )


class InstructionsForm(forms.Form):
    text = WordsField(
        label=gettext_lazy("What should models know about you, and how should they answer?"),
        required=False,
        max_length=INSTRUCTIONS_LENGTH,
        widget=forms.Textarea(attrs={"rows": 6, "dir": "auto"}),
        help_text=gettext_lazy(
            "Sent to the server with your messages, before the system prompt. Other people in a conversation "
            "see that you have instructions, but not their text."
        ),
    )
    use = forms.TypedChoiceField(
        label=gettext_lazy("Send them"), choices=InstructionsUse.choices, coerce=InstructionsUse
    )

    @classmethod
    def of(cls, user: User) -> InstructionsForm:
        saved = PersonalInstructions.objects.filter(user=user).first()
        return cls(
            initial={
                "text": saved.text if saved else "",
                "use": saved.use if saved else InstructionsUse.ALL,
            }
        )


# The value of the choice in days; ``None`` is never.
LIFETIMES: dict[str, tuple[Promise, int | None]] = {
    "7": (gettext_lazy("7 days"), 7),
    "30": (gettext_lazy("30 days"), 30),
    "90": (gettext_lazy("90 days"), 90),
    "365": (gettext_lazy("1 year"), 365),
    "never": (gettext_lazy("Never"), None),
}
USUAL_LIFETIME = "90"


class TokenForm(forms.Form):
    name = NameField(
        label=gettext_lazy("Name"),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text=gettext_lazy(
            "What uses the token, such as “nightly report” or “editor on my laptop”."
        ),
    )
    team = forms.ModelChoiceField(
        label=gettext_lazy("Team"),
        queryset=Team.objects.none(),
        to_field_name="public_id",
        empty_label=None,
        help_text=gettext_lazy("The token can access this team only."),
        error_messages={
            "invalid_choice": gettext_lazy(
                "You have read-only access to this team. Ask a team owner for write access."
            )
        },
    )
    lifetime = forms.ChoiceField(
        label=gettext_lazy("Expires after"),
        choices=[(key, label) for key, (label, _) in LIFETIMES.items()],
        initial=USUAL_LIFETIME,
    )

    def __init__(self, *args: Any, teams: QuerySet[Team], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["team"].queryset = teams

    @property
    def days(self) -> int | None:
        return LIFETIMES[self.cleaned_data["lifetime"]][1]
