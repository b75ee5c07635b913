"""The script of a page in its templates, and the catalogue of its texts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import translation

from chat.web import scripts, tags
from chat.web.scripts import modules_of

CATALOGUE = {
    "": "Plural-Forms: nplurals=2; plural=(n != 1);\n",
    "Copied": "</script>Kopiert",
    ("%(count)s word", 0): "%(count)s Wort",
    ("%(count)s word", 1): "%(count)s Wörter",
}


def test_page_preloads_what_its_script_imports() -> None:
    html = str(tags.page_script("pages/conversation.js"))

    preloaded = re.findall(r'<link rel="modulepreload" href="/static/([^"]+)">', html)
    assert [*preloaded, "pages/conversation.js"] == list(modules_of("pages/conversation.js"))
    assert len(set(preloaded)) == len(preloaded)
    assert html.endswith('<script type="module" src="/static/pages/conversation.js"></script>')


def test_imports_come_before_the_module_that_imports_them() -> None:
    modules = modules_of("pages/conversation.js")

    for at, name in enumerate(modules):
        assert set(scripts.imports_of(name)) <= set(modules[:at])


def test_english_page_has_no_catalogue() -> None:
    assert tags.script_messages() == ""


@pytest.fixture
def german(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A catalogue of our scripts, as Django reads it."""
    settings.LOCALE_PATHS = ["locale"]
    catalogue = SimpleNamespace(_catalog=CATALOGUE, _fallback=None)
    monkeypatch.setattr(scripts, "DjangoTranslation", lambda *_, **__: catalogue)
    scripts._messages.cache_clear()
    yield
    scripts._messages.cache_clear()


def test_catalogue_holds_texts_and_plural_forms(german: None) -> None:
    with translation.override("de"):
        html = str(tags.script_messages())

    found = re.fullmatch(
        r'<script id="script-messages" type="application/json">(.*)</script>', html
    )
    assert found
    assert "</" not in found[1]
    assert json.loads(found[1])["catalog"]["Copied"] == "</script>Kopiert"
    assert json.loads(found[1])["catalog"]["%(count)s word"] == [
        "%(count)s Wort",
        "%(count)s Wörter",
    ]
