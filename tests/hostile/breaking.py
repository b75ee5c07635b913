"""Takes the defences of the Markdown renderer away, so that tests see their checks fail."""

from __future__ import annotations

import pytest

from chat.rendering import markdown


class NoCleaner:
    @staticmethod
    def clean(html: str) -> str:
        return html


def without_cleaner(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(markdown, "_cleaner", NoCleaner)


def without_escaping(patch: pytest.MonkeyPatch) -> None:
    """HTML stays HTML, any URL becomes a link, and nothing checks that no letter is lost."""
    patch.setitem(markdown._full.options, "html", True)
    patch.setitem(markdown._blocks.options, "html", True)
    for parser in (markdown._full, markdown._blocks):
        patch.setattr(parser, "validateLink", lambda url: True)
    patch.setattr(markdown, "_is_complete", lambda *parts: True)


def without_url_check(patch: pytest.MonkeyPatch) -> None:
    """Outside of Markdown any URL becomes a link."""
    for module in ("texts", "cards", "trees"):
        patch.setattr(f"chat.rendering.{module}.is_safe_link", lambda url: True)
