"""The style guide shows every component."""

import re
from collections.abc import Callable, Mapping

import lxml.html
import pytest
from django.conf import settings
from django.test import Client

from chat.models import User
from chat.web import components
from tests.look.sheets import STATIC, rules_of

TEMPLATES = settings.BASE_DIR / "templates" / "components"
CLASS = re.compile(r"\.([a-z][\w-]*)")
NOT_SHOWN: Mapping[str, set[str]] = {
    # The scripts of a combobox and of favorites make them.
    "combobox.css": {
        *("combobox-heading", "combobox-hint", "is-active"),
        *("combobox-star", "combobox-tip", "is-favorite"),
    },
    # Features whose summaries are no folds, and whose figures are aligned.
    "fold.css": {"ask-refuse", "words-fold"},
    "text.css": {"figures"},
    # Every page has them, around its main element.
    "notice.css": {"notices", "toasts"},
}
# Sheets that name elements instead of classes.
ELEMENTS = {"dialog.css": "dialog", "fold.css": "summary", "progress.css": "progress"}


@pytest.fixture
def guide(signed_in: Callable[[User], Client], administrator: User) -> lxml.html.HtmlElement:
    return lxml.html.fromstring(signed_in(administrator).get("/styleguide/").content)


def test_every_component_is_shown(
    signed_in: Callable[[User], Client], administrator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    render, shown = components._render, set()

    def note(name: str, context: Mapping[str, object]) -> str:
        shown.add(name)
        return render(name, context)

    monkeypatch.setattr(components, "_render", note)
    signed_in(administrator).get("/styleguide/")

    names = {path.stem for path in TEMPLATES.glob("[a-z]*.html")}
    assert names - shown == set()


def test_every_class_of_every_sheet_is_shown(guide: lxml.html.HtmlElement) -> None:
    shown = {name for each in guide.xpath("//main//@class") for name in each.split()}
    missing = {}
    for sheet in sorted((STATIC / "components").glob("*.css")):
        named = set(CLASS.findall(" ".join(" ".join(rule.path) for rule in rules_of(sheet))))
        missing[sheet.name] = named - shown - NOT_SHOWN.get(sheet.name, set())

    assert {name: classes for name, classes in missing.items() if classes} == {}


def test_every_sheet_of_elements_is_shown(guide: lxml.html.HtmlElement) -> None:
    assert [each for each in ELEMENTS.values() if not guide.xpath(f"//main//{each}")] == []
