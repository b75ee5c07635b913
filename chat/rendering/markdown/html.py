"""HTML of rendered Markdown: the allow-list, code blocks with their buttons, links to images."""

import re
from functools import lru_cache
from html import escape, unescape

import nh3
from django.utils.translation import get_language, gettext
from markdown_it.token import Token

from chat.rendering.icons import icon_url
from chat.rendering.markdown.highlight import file_name, highlight
from chat.rendering.markdown.parser import MOST_DIGITS, REMOTE_IMAGE_CLASS, USUAL_DIGITS
from chat.rendering.safety import is_safe_link, reveal, storable

# --- the sanitiser -------------------------------------------------------------------------

_TAGS = {
    *("p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "hr", "br"),
    *(
        "pre",
        "code",
        "em",
        "strong",
        "s",
        "a",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "input",
        "span",
        "sup",
    ),
}
# Containers have no direction: it never sees the text of entries that have their own, but browsers
# look for it through all entries, again at each insertion (9 s for 8,000 rows of a table).
_DIRECTED = ("p", "h1", "h2", "h3", "h4", "h5", "h6", "li", "th", "td")
_LANGUAGE_CLASS = re.compile(r"language-[a-z0-9+#-]{1,30}")
_ALIGNMENT = {"text-align:left": "left", "text-align:right": "right", "text-align:center": "center"}


def _filter_attribute(tag: str, name: str, value: str) -> str | None:
    if tag == "code" and name == "class":
        value = value.lower()
        return value if _LANGUAGE_CLASS.fullmatch(value) else None
    if tag == "ol" and name == "start":
        return value if value.isdecimal() else None
    if tag == "a" and name == "href":
        # "http:/c/" has a host for the cleaner, and leads into this application for a browser.
        return value if is_safe_link(value) else None
    return value


def clean(html: str) -> str:
    """The HTML without anything that is not on the allow-list."""
    return _cleaner(get_language()).clean(html)


@lru_cache(maxsize=8)
def _cleaner(language: str | None) -> nh3.Cleaner:
    """The cleaner of one language, because it sets a label."""
    return nh3.Cleaner(
        tags=_TAGS,
        clean_content_tags=set(),
        attributes={"a": {"href", "title"}, "ol": {"start"}, "code": {"class", "title"}},
        tag_attribute_values={
            "a": {"class": {REMOTE_IMAGE_CLASS}},
            "ol": {"class": {f"digits-{n}" for n in range(USUAL_DIGITS + 1, MOST_DIGITS + 1)}},
            "span": {"class": {"math", "math display"}},
            "input": {"type": {"checkbox"}, "checked": {""}, "disabled": {""}},
            "th": {"align": {"left", "right", "center"}},
            "td": {"align": {"left", "right", "center"}},
        },
        set_tag_attribute_values={
            **{tag: {"dir": "auto"} for tag in _DIRECTED},
            "a": {"target": "_blank"},
            "span": {"dir": "ltr"},
            # The box itself says whether the task is done.
            "input": {"type": "checkbox", "disabled": "", "aria-label": gettext("Task")},
        },
        attribute_filter=_filter_attribute,
        link_rel="noopener noreferrer nofollow",
        url_schemes={"http", "https", "mailto"},
        url_relative="deny",
    )


def align_without_style(tokens: list[Token]) -> None:
    """The parser aligns cells by ``style``, which no content may carry."""
    for token in tokens:
        if token.type in ("th_open", "td_open") and "style" in token.attrs:
            token.attrs["align"] = _ALIGNMENT.get(str(token.attrs.pop("style")), "left")


# --- dress: our own markup around cleaned code and tables -------------------------------------

# After cleaning, text holds no "<": what this matches is exactly the code elements.
_CODE = re.compile(r"<pre><code([^<>]*)>([^<]*)</code></pre>")
_LANGUAGE = re.compile(r'class="language-([^"]*)"')
_LABEL = re.compile(r'title="([^"]*)"')


def _tool(name: str, word: str, attributes: str = "") -> str:
    word = escape(word)
    return (
        f'<button type="button" class="code-tool {name}"{attributes} aria-label="{word}"'
        f' title="{word}"><svg class="icon" aria-hidden="true">'
        f'<use href="{icon_url(_TOOL_ICONS[name])}"/></svg></button>'
    )


_TOOL_ICONS = {"wrap": "wrap-text", "download": "download"}


def _copy_button() -> str:
    return (
        '<button type="button" class="code-tool copy" data-copy="code">'
        f'<svg class="icon" aria-hidden="true"><use href="{icon_url("copy")}"/></svg>'
        f'<span class="copy-word">{escape(gettext("Copy"))}</span></button>'
    )


def code_open(label: str, file: str = "") -> str:
    """The beginning of a code block, up to where the code's own element begins. Code and tables
    that are wider than the page can be scrolled by keyboard, too.

    ``file``: what it is called when somebody keeps it; without one it is not offered.
    """
    name = f'<span class="language">{escape(label)}</span>'
    wrap = _tool("wrap", gettext("Wrap lines"))
    attribute = f' data-file="{escape(file)}"'
    keep = _tool("download", gettext("Download"), attribute) if file else ""
    tools = f'<span class="code-tools">{wrap}{keep}{_copy_button()}</span>'
    bar = f'<div class="code-bar">{name}{tools}</div>'
    return f'<div class="codeblock" dir="ltr">{bar}<pre tabindex="0">'


CODE_CLOSE = "</pre></div>"


def code_block(code: str, language: str = "", label: str = "", file: str = "") -> str:
    """A highlighted code block with its language and what can be done with it."""
    begin = code_open(label or language, file)
    return f"{begin}<code>{highlight(code, language)}</code>{CODE_CLOSE}"


# Drawn in the browser, in a frame of its own.
_DIAGRAM = "mermaid"


def diagram(source: str) -> str:
    """A text that is a diagram as a whole: its source, until the browser has drawn it."""
    return _as_diagram(code_block(reveal(storable(source)), _DIAGRAM, _DIAGRAM))


def _as_diagram(block: str) -> str:
    return block.replace('"codeblock"', '"codeblock diagram"', 1)


def fence_open(label: str) -> str:
    """The same for a block of an answer: whole, so that it can be kept as a file."""
    return code_open(label, file_name(label))


def _dress_code(match: re.Match[str]) -> str:
    attributes, code = match.groups()
    language, label = _LANGUAGE.search(attributes), _LABEL.search(attributes)
    name = unescape(label.group(1)) if label else ""
    kind = language.group(1) if language else ""
    block = code_block(unescape(code), kind, name, file_name(name))
    return _as_diagram(block) if kind == _DIAGRAM else block


_PICTURE_LINK = re.compile(
    rf'<a href="(https?://[^"]*)" class="{REMOTE_IMAGE_CLASS}"[^<>]*>[^<]*</a>'
)


def _show_button() -> str:
    return (
        f'<button type="button" class="show-picture" aria-label="{escape(gettext("Show image"))}">'
        f'<svg class="icon" aria-hidden="true"><use href="{icon_url("image")}"/></svg>'
        f"<span>{escape(gettext('Show'))}</span></button>"
    )


def picture_addresses(html: str) -> list[str]:
    """The addresses of the pictures that a reader of this HTML can have shown, each once."""
    return list(dict.fromkeys(unescape(match[1]) for match in _PICTURE_LINK.finditer(html)))


def _table_label() -> str:
    return escape(gettext("Table"))


def dress(html: str) -> str:
    html = _CODE.sub(_dress_code, html)
    html = _PICTURE_LINK.sub(lambda link: f"{link[0]} {_show_button()}", html)
    if "<table" in html:
        frame = (
            f'<div class="table-scroll" tabindex="0" role="group" aria-label="{_table_label()}">'
        )
        html = html.replace("<table", f"{frame}<table")
    return html.replace("</table>", "</table></div>")
