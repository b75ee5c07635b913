"""Template tags of the components: one small template in ``templates/components/`` for each.

A component's further keyword arguments become attributes of its element; ``_`` in their names
becomes ``-`` (``hx_post``, ``data_confirm``, ``aria_label``), ``True`` an attribute without a
value, ``False``, ``None`` and "" no attribute. The style guide at ``/styleguide/`` shows each in every state.
"""

from __future__ import annotations

from collections.abc import Mapping

from django import template
from django.forms.boundfield import BoundField
from django.template import Context
from django.template.loader import get_template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from chat.rendering.text_diff import TextDiff

register = template.Library()

# Colors that mean something, and the icon that goes with each where none is named.
TONE_ICONS = {"": "info", "accent": "info", "good": "circle-check", "wait": "clock", "bad": "circle-alert"}  # fmt: skip


def attributes(values: Mapping[str, object]) -> SafeString:
    """HTML attributes, each with a space before it."""
    parts: list[SafeString] = []
    for name, value in values.items():
        written = name.rstrip("_").replace("_", "-")
        if value is True:
            parts.append(format_html(" {}", written))
        elif value not in (False, None, ""):
            parts.append(format_html(' {}="{}"', written, value))
    return format_html_join("", "{}", ((part,) for part in parts))


def _render(name: str, context: Mapping[str, object]) -> SafeString:
    return get_template(f"components/{name}.html").render(dict(context))


@register.simple_tag
def button(
    label: str = "",
    kind: str = "",
    icon: str = "",
    *,
    href: str = "",
    small: bool = False,
    wide: bool = False,
    icon_label: str = "",
    class_: str = "",
    **attrs: object,
) -> SafeString:
    """A button, or a link that looks like one where ``href`` is given.

    ``kind``: "" (neutral), "primary", "quiet", "danger". ``icon_label`` makes a button that shows
    only its icon, with this name for screen readers and on hover.
    """
    classes = ["icon-button"] if icon_label else ["button"]
    classes += [f"button-{kind}"] if kind else []
    classes += ["button-small"] if small else []
    classes += ["button-wide"] if wide else []
    classes += [class_] if class_ else []
    if icon_label:
        attrs = {"aria_label": icon_label, "title": icon_label, **attrs}
    return _render(
        "button",
        {
            "label": label,
            "icon_name": icon,
            "href": href,
            "attributes": attributes({"class": " ".join(classes), **attrs}),
        },
    )


@register.simple_block_tag
def menu(
    content: str, label: str, icon: str = "ellipsis", *, up: bool = False, class_: str = ""
) -> SafeString:
    """A button that opens a list of ``menu_item``s. ``up`` opens it upward."""
    return _render(
        "menu", {"content": content, "label": label, "icon_name": icon, "up": up, "class": class_}
    )


@register.simple_tag(takes_context=True)
def menu_item(
    context: Context,
    label: str,
    icon: str = "",
    *,
    href: str = "",
    action: str = "",
    name: str = "",
    value: str = "",
    help: str = "",
    danger: bool = False,
    **attrs: object,
) -> SafeString:
    """An entry of a menu: a link (``href``), a form that posts to ``action``, or a button.

    ``help`` is a quiet second line. Further attributes belong to the form, if there is one:
    ``data_confirm`` asks before it posts, ``data_confirm_go`` is the word on the button that does.
    """
    return _render(
        "menu_item",
        {
            "csrf_token": context.get("csrf_token"),
            "label": label,
            "icon_name": icon,
            "href": href,
            "action": action,
            "name": name,
            "value": value,
            "help": help,
            "danger": danger,
            "attributes": attributes(attrs),
        },
    )


@register.simple_block_tag
def dialog(content: str, id: str, title: str, *, is_open: bool = False) -> SafeString:
    """A dialog with a title and a button to close it; a script or an invoker opens it. One that
    ``is_open`` is a box of the page until a script makes it modal."""
    context = {"content": content, "id": id, "title": title, "is_open": is_open}
    return _render("dialog", context)


@register.simple_block_tag
def card(content: str, title: str = "", icon: str = "", *, id: str = "") -> SafeString:
    """A framed group with a title."""
    return _render("card", {"content": content, "title": title, "icon_name": icon, "id": id})


@register.simple_tag
def text_changes(difference: TextDiff) -> SafeString:
    """The changed lines of two texts, with the unchanged ones around them."""
    return _render("text_changes", {"difference": difference})


@register.simple_tag
def badge(label: object, tone: str = "", icon: str = "", **attrs: object) -> SafeString:
    """A state in one or two words. ``tone``: "", "accent", "good", "wait", "bad"; a color never
    stands without a word."""
    return _render(
        "badge",
        {"label": label, "tone": tone, "icon_name": icon, "attributes": attributes(attrs)},
    )


@register.simple_block_tag
def notice(
    content: str, tone: str = "", icon: str = "", *, title: str = "", **attrs: object
) -> SafeString:
    """A notice of one or two sentences, with an icon. ``tone`` as for a badge."""
    return _render(
        "notice",
        {
            "content": content,
            "tone": tone,
            "title": title,
            "icon_name": icon or TONE_ICONS[tone],
            "attributes": attributes(attrs),
        },
    )


@register.simple_block_tag
def tabs(content: str, label: str) -> SafeString:
    """A row of ``tab``s, which are links to pages or parts of a page."""
    return _render("tabs", {"content": content, "label": label})


@register.simple_tag
def tab(
    label: str, href: str, *, current: bool = False, count: int | None = None, **attrs: object
) -> SafeString:
    """One of the ``tabs``. ``count`` is shown beside the label if it is not None."""
    return _render(
        "tab",
        {
            "label": label,
            "href": href,
            "current": current,
            "count": count,
            "attributes": attributes(attrs),
        },
    )


@register.simple_block_tag
def side_list(content: str, label: str) -> SafeString:
    """Links to the parts of a long page, beside them on a wide window; both are in ``.with-side-list``."""
    return _render("side_list", {"content": content, "label": label})


@register.simple_block_tag
def save_bar(content: str) -> SafeString:
    """The buttons of a long form, in sight wherever it is scrolled to."""
    return _render("save_bar", {"content": content})


@register.simple_block_tag
def empty_state(content: str, text: str, icon: str = "", *, title: str = "") -> SafeString:
    """The state of an empty list: one sentence on what will be here; the content is the one button."""
    return _render(
        "empty_state", {"content": content, "text": text, "icon_name": icon, "title": title}
    )


@register.simple_block_tag
def page_head(content: str, title: str, text: str = "") -> SafeString:
    """The title of a page, one sentence about it, and its actions at the end of the line."""
    return _render("page_head", {"content": content, "title": title, "text": text})


@register.simple_block_tag
def section(
    content: str, title: str, text: str = "", *, id: str = "", beside: bool = False
) -> SafeString:
    """A part of a page with a heading, and one sentence about it. ``beside`` puts the content, a
    button, beside them."""
    return _render(
        "section",
        {"content": content, "title": title, "text": text, "id": id, "is_beside": beside},
    )


@register.simple_block_tag(takes_context=True)
def live_form(
    context: Context, content: str, action: str, *, is_live: bool = True, **attrs: object
) -> SafeString:
    """A form of a conversation: it is sent when the forms before it are done, and answered by
    patches. Without scripts, or if it is not ``is_live``, it is posted."""
    return _render(
        "live_form",
        {
            "content": content,
            "csrf_token": context.get("csrf_token"),
            "action": action,
            "is_live": is_live,
            "attributes": attributes(attrs),
        },
    )


@register.simple_tag
def combobox(field: BoundField, search: str, icon: str = "") -> SafeString:
    """A select that can be searched, with its options by group; the page needs
    ``base/combobox.js``. ``search`` names the search field. Without scripts it is the select."""
    widget = field.field.widget
    options = [
        (name or "", option)
        for name, group, _ in widget.optgroups(field.name, widget.format_value(field.value()))
        for option in group
    ]
    # The browser chooses the first where none is.
    chosen = [each for each in options if each[1]["selected"]] or options[:1]
    group, value = (chosen[0][0], chosen[0][1]["label"]) if chosen else ("", "")
    return _render(
        "combobox",
        {"field": field, "search": search, "icon_name": icon, "group": group, "value": value},
    )


@register.simple_tag
def stat(
    label: str, value: object, note: str = "", tone: str = "", *, href: str = ""
) -> SafeString:
    """A figure with its name above and a note below; a link where ``href`` is given. ``tone``: "",
    "wait", "bad"."""
    context = {"label": label, "value": value, "note": note, "tone": tone, "href": href}
    return _render("stat", context)
