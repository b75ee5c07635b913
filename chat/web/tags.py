"""Tags shared by all templates: icons, form fields, avatars, times, and links that mark the current
page."""

from __future__ import annotations

from datetime import datetime, tzinfo
from functools import cache, lru_cache
from uuid import UUID

from django import template
from django.forms import BoundField, CheckboxInput, PasswordInput, Select
from django.template import Context
from django.templatetags.static import static
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join, json_script
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from chat.core import style_bundles
from chat.core.static_files import is_built
from chat.models import User
from chat.rendering import figures
from chat.web import scripts

register = template.Library()

# The hues .avatar-0 to .avatar-7 in components/avatar.css.
AVATAR_HUES = 8


# A page has a few dozen icons of a few dozen kinds.
@register.simple_tag
@cache
def icon(name: str, size: int = 16, spin: bool = False) -> SafeString:
    """An icon of the sprite. It is decoration: the word beside it has the meaning."""
    classes = " ".join(
        ["icon", *([f"icon-{size}"] if size != 16 else []), *(["spin"] if spin else [])]
    )
    return format_html(
        '<svg class="{}" aria-hidden="true"><use href="{}#{}"/></svg>',
        classes,
        static("icons.svg"),
        name,
    )


@register.simple_tag
def style_sheets(*bundles: str) -> SafeString:
    """Links to bundles of `static/bundles.toml`: one for each where static files were built, and
    elsewhere one for each of their sheets."""
    if is_built():
        names = [style_bundles.file_of(bundle) for bundle in bundles]
    else:
        sheets = style_bundles.bundles()
        names = [name for bundle in bundles for name in sheets[bundle]]
    return format_html_join(
        "\n", '<link rel="stylesheet" href="{}">', ((static(name),) for name in names)
    )


@register.simple_tag
def page_script(entry: str) -> SafeString:
    """The one script of a page. The modules that it imports are loaded at the same time."""
    *imported, _ = scripts.modules_of(entry)
    preloads = ((static(name),) for name in imported)
    return format_html(
        '{}\n<script type="module" src="{}"></script>',
        format_html_join("\n", '<link rel="modulepreload" href="{}">', preloads),
        static(entry),
    )


@register.simple_tag
def script_messages() -> SafeString:
    """The catalogue of the texts in scripts, which base/i18n.js reads; nothing where it is empty."""
    catalog = scripts.messages()
    return json_script({"catalog": catalog}, "script-messages") if catalog else SafeString("")


def initials(name: str) -> str:
    words = name.split()
    if not words:
        return "?"
    letters = words[0][0] if len(words) == 1 else words[0][0] + words[-1][0]
    return letters.upper()


@register.simple_tag
def avatar(
    user: User | None, small: bool = False, *, large: bool = False, picture: bool = True
) -> SafeString:
    """A person's picture, or their initials on a colour of their own; decoration beside the name. The initials are
    below the picture, for readers who may not see it. ``picture=False`` is for pages outside of this site."""
    classes = f"avatar avatar-{user.pk % AVATAR_HUES if user and user.pk else 0}"
    classes += " avatar-small" if small else " avatar-large" if large else ""
    letters = initials(str(user)) if user else "?"
    if user is None or not picture or not user.picture_version:
        return format_html('<span class="{}" aria-hidden="true">{}</span>', classes, letters)
    return format_html(
        '<span class="{}" aria-hidden="true">{}<img src="{}" alt="" loading="lazy"></span>',
        classes,
        letters,
        _picture_url(user.public_id, user.picture_version),
    )


# A page names the same few people again and again.
@lru_cache(maxsize=1000)
def _picture_url(public_id: UUID, version: str) -> str:
    return reverse("picture", args=[public_id, version])


@register.inclusion_tag("base/field.html")
def field(bound: BoundField, label: str = "", help: str = "") -> dict[str, object]:
    """A form field with its label above, help below and error beside it. Passwords get a button to
    show them."""
    if help:
        bound.help_text = help
    widget = bound.field.widget
    # allauth repeats the label as placeholder; one label above is enough.
    widget.attrs.pop("placeholder", None)
    return {
        "field": bound,
        "label": label or bound.label,
        "is_password": isinstance(widget, PasswordInput),
        "is_checkbox": isinstance(widget, CheckboxInput),
        # Without a choice, a checkbox and a list of choices say what that means.
        "is_optional": not bound.field.required and not isinstance(widget, CheckboxInput | Select),
    }


@register.simple_tag
def when(value: datetime | None, style: str = "moment") -> SafeString:
    """A time such as "Nov 24, 3:05 PM", exact on hover. A script rewrites it for the reader's time
    zone. The year is given where it is not this one. ``style``: "moment"; "date", without the hour;
    "full", also with the time zone, for what is compared with logs."""
    if value is None:
        return SafeString("")
    zone = timezone.get_current_timezone()
    return _time(value.replace(microsecond=0), zone, style, timezone.localdate().year)


# The two messages of a turn often have the same time, and so do many rows of a table.
@lru_cache(maxsize=1000)
def _time(moment: datetime, zone: tzinfo, style: str, this_year: int) -> SafeString:
    local = timezone.localtime(moment, zone)
    return format_html(
        '<time datetime="{}" data-when="{}" title="{}">{}</time>',
        local.isoformat(timespec="seconds"),
        style,
        date_format(local, "DATETIME_FORMAT"),
        _in_words(local, style, this_year),
    )


def _in_words(local: datetime, style: str, this_year: int) -> str:
    is_recent = local.year == this_year
    day = date_format(local, "MONTH_DAY_FORMAT" if is_recent else "DATE_FORMAT")
    if style == "date":
        return day
    values = {"day": day, "time": date_format(local, "TIME_FORMAT"), "zone": local.tzname()}
    if style == "full":
        return gettext("%(day)s, %(time)s %(zone)s") % values
    return gettext("%(day)s, %(time)s") % values


@register.filter
def grouped(number: int | None) -> str:
    """A number with its digits in groups."""
    return figures.count(number or 0)


@register.inclusion_tag("base/nav_link.html", takes_context=True)
def nav_link(
    context: Context, route: str, label: str, icon_name: str, exact: bool = False
) -> dict[str, object]:
    """A navigation link, marked if it is the current page. Empty where the route does not exist."""
    try:
        url = reverse(route)
    except NoReverseMatch:
        return {}
    path = context["request"].path if "request" in context else ""
    return {
        "url": url,
        "label": label,
        "icon_name": icon_name,
        "is_current": path == url if exact else path.startswith(url),
    }
