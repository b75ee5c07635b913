"""Takes the defences of the Markdown renderer away, so that tests see their checks fail."""

from __future__ import annotations

import pytest
from markdown_it.rules_inline import html_inline

from chat.rendering.markdown import parser as markdown_parser
from chat.rendering.markdown import renderer


def without_cleaner(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(renderer, "clean", lambda html: html)


def without_escaping(patch: pytest.MonkeyPatch) -> None:
    """HTML stays HTML, any URL becomes a link, and nothing checks that no letter is lost."""
    patch.setitem(markdown_parser.full_parser.options, "html", True)
    patch.setitem(markdown_parser.block_parser.options, "html", True)
    for parser in (markdown_parser.full_parser, markdown_parser.block_parser):
        patch.setattr(parser, "validateLink", lambda url: True)
        # Our parser has another rule in the place of the one for tags in text.
        rules = parser.inline.ruler
        place = next(rule for rule in rules.__rules__ if rule.name == "html_inline")
        patch.setattr(place, "fn", html_inline)
        patch.setattr(rules, "__cache__", None)
    patch.setattr(renderer, "_is_complete", lambda *parts: True)


def without_url_check(patch: pytest.MonkeyPatch) -> None:
    """Outside of Markdown any URL becomes a link."""
    for module in ("texts", "media", "json_tree"):
        patch.setattr(f"chat.rendering.{module}.is_safe_link", lambda url: True)
