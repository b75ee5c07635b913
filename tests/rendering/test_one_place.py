"""HTML is declared safe in one room of the house."""

from pathlib import Path

import pytest
from django.conf import settings

CODE = sorted((settings.BASE_DIR / "chat").rglob("*.py"))
TEMPLATES = sorted((settings.BASE_DIR / "templates").rglob("*.html"))


def name(path: Path) -> str:
    return str(path.relative_to(settings.BASE_DIR))


@pytest.mark.parametrize("path", [p for p in CODE if p.parent.name != "rendering"], ids=name)
def test_only_the_renderer_declares_html_safe(path: Path) -> None:
    assert "mark_safe" not in path.read_text()


@pytest.mark.parametrize("path", TEMPLATES, ids=name)
def test_no_template_switches_escaping_off(path: Path) -> None:
    source = path.read_text()

    assert "|safe" not in source
    assert "autoescape off" not in source
