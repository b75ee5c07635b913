"""Templates are sent without the whitespace of their source."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings
from django.template import engines

from chat.web.template_loader import without_indentation

TEMPLATES = sorted((Path(settings.BASE_DIR) / "templates").rglob("*.html"))

CASES = {
    "between elements": ("<p>\n  <b>a</b>\n  <i>b</i>\n</p>\n", "<p><b>a</b><i>b</i></p>"),
    "between words": ("<p>\n  one\n  two\n</p>", "<p>one two</p>"),
    "between words and values": ("one\n{{ two }}\n{{ three }}", "one {{ two }} {{ three }}"),
    "beside a template tag": ("{% if a %}\n  one\n{% endif %}\ntwo", "{% if a %}one{% endif %}two"),
    "space within a line": ("<b>a</b> <i>b</i>", "<b>a</b> <i>b</i>"),
    "space that is asked for": ('<b>a</b>{{ " " }}\n<i>b</i>', "<b>a</b> <i>b</i>"),
    "space before words": ('<b>a</b>{{ " " }}\nwords', "<b>a</b> words"),
    "attributes": ('<a\n  href="x"\n  {% if a %}b{% endif %}\n>\n  c\n</a>', '<a href="x" {% if a %}b{% endif %}>c</a>'),
    "greater-than in an attribute": ('<a title="{% if a > b %}\n>{% endif %}">\nx</a>', '<a title="{% if a > b %} >{% endif %}">x</a>'),
    "preformatted text": ("<pre>\n a\n  b\n</pre>\n<p>", "<pre>\n a\n  b\n</pre><p>"),
    "a textarea": ("<textarea\n  id=x\n>\n{{ a }}\n</textarea>", "<textarea id=x>\n{{ a }}\n</textarea>"),
    "a translation": (
        "<p>\n  {% blocktranslate trimmed %}\n    a\n  {% endblocktranslate %}\n</p>",
        "<p>{% blocktranslate trimmed %}\n    a\n  {% endblocktranslate %}</p>",
    ),
    "comments": ("{# a #}\n<p>\n  {% comment %}\n b\n{% endcomment %}\n  c\n</p>", "<p>c</p>"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_indentation_is_left_out(case: str) -> None:
    source, compiled = CASES[case]

    assert without_indentation(source) == compiled


def test_leaving_it_out_twice_changes_nothing() -> None:
    assert TEMPLATES
    for path in TEMPLATES:
        once = without_indentation(path.read_text())

        assert without_indentation(once) == once, path


def test_lines_of_templates_are_short() -> None:
    too_long = [
        f"{path.name}:{number}"
        for path in TEMPLATES
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if len(line) > 160
    ]

    assert too_long == []


def test_every_template_compiles() -> None:
    for path in TEMPLATES:
        engines["django"].get_template(str(path.relative_to(settings.BASE_DIR / "templates")))
