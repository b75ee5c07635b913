"""Only the renderer declares HTML safe, and every template escapes."""

from pathlib import Path

from django.conf import settings

CODE = settings.BASE_DIR / "chat"
TEMPLATES = settings.BASE_DIR / "templates"


def files_with(folder: Path, pattern: str, *words: str) -> list[Path]:
    found = list(folder.rglob(pattern))
    assert found
    return [path for path in found if any(word in path.read_text() for word in words)]


def test_only_the_renderer_marks_html_safe() -> None:
    using = files_with(CODE, "*.py", "mark_safe")

    assert [path for path in using if path.parent.name != "rendering"] == []


def test_no_template_disables_escaping() -> None:
    assert files_with(TEMPLATES, "*.html", "|safe", "autoescape off") == []
