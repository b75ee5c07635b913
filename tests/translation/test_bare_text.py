"""No text of the interface is without translation."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings

from tests.translation.bare_text import findings, in_python, in_script, in_template

ROOT = Path(settings.BASE_DIR)
# What no translation has to reach, and why.
LEFT_OUT = (
    # What demo models say.
    "chat/demo/",
    # Samples for the people who build pages.
    "templates/styleguide/",
    "chat/web/styleguide.py",
    # Data in the log, and words for models: docs/decisions/0015.
    "chat/dialects/",
    "chat/documents/readers/mail.py",
    "chat/documents/readers/slides.py",
    "chat/questions/asking.py",
    "chat/upstreams/probe_requests.py",
    "chat/runs/offered_tools.py",
    "chat/documents/file_tools.py",
    "chat/skills/functions.py",
    "chat/tools/tool_search.py",
    "chat/tools/web/definitions.py",
    "chat/tools/web/results.py",
    # Prompts by whose words the demo servers choose a scene.
    "chat/conversations/starters.py",
    # HTTP, a configuration for Apache, a JSON schema, a text of httpx.
    "chat/identity/asking.py",
    "chat/health/runner_probe.py",
    "chat/health/views.py",
    "chat/tools/forms.py",
    "chat/upstreams/failures.py",
)


def test_every_text_goes_through_gettext() -> None:
    found = [
        finding.removeprefix(f"{ROOT}/")
        for finding in findings([ROOT / "templates", ROOT / "chat", ROOT / "static"])
    ]

    assert [finding for finding in found if not finding.startswith(LEFT_OUT)] == []


def test_bare_text_in_a_template_is_found() -> None:
    source = """
    <p title="Close it">
      {% translate "Fine" %}
      Bare words
      <code>not words</code>
      {% blocktranslate trimmed %}Fine <b>too</b>{% endblocktranslate %}
      <input placeholder="{% if a %}Say it{% endif %}" name="no-text">
    </p>"""

    assert [text for _, text in in_template(source)] == [
        "title=Close it",
        "Bare words",
        "placeholder=Say it",
    ]


def test_bare_text_in_code_is_found() -> None:
    source = '''
"""No text of the interface."""
label = forms.CharField(label="Name", help_text=gettext_lazy("Shown to all"))
raise ActionRefused("The server is off")
raise ValueError("Never happens at all")
words = f"Place {n} in line"
statement = "SELECT id FROM chat_run"
'''

    assert [text for _, text in in_python(source)] == [
        "Name",
        "The server is off",
        "Place {} in line",
    ]


def test_bare_text_in_a_script_is_found() -> None:
    source = """
    // No text of the interface
    note.textContent = "Connection lost";
    note.title = gettext("Back online");
    count.textContent = ngettext("One answer", "Many answers", n);
    """

    assert [text for _, text in in_script(source)] == ["Connection lost"]
