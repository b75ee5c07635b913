from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from chat.management.commands.makemessages import COLLECTED


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source tree with one template, as the working directory."""
    (tmp_path / COLLECTED.parent).mkdir(parents=True)
    (tmp_path / "tests").mkdir()
    (tmp_path / "page.html").write_text('{% translate "From a template" %}')
    (tmp_path / "tests" / "test_page.py").write_text('gettext("From a test")')
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.needs("gettext")
def test_catalogue_has_texts_of_templates_and_of_toml_files(source: Path) -> None:
    call_command("makemessages", locale=["de"], verbosity=0)

    catalogue = (source / "locale/de/LC_MESSAGES/django.po").read_text()
    for text in (
        "From a template",
        # A label, a help text, a choice that has a label of its own, and one that has none.
        "Max tokens",
        "The same seed gives the same answer if the server supports it.",
        "Bearer token",
        "Summarized",
        # An action of the audit log and its sentence.
        "Member added",
        "%(actor)s removed %(subject)s from %(target)s",
    ):
        assert f'msgid "{text}"' in catalogue
    assert "From a test" not in catalogue
    # The demo servers understand English.
    assert "Use a tool to find the unpaid invoices" not in catalogue
    assert not COLLECTED.exists()


def test_makemessages_elsewhere_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(CommandError, match=r"folder that contains manage\.py"):
        call_command("makemessages", locale=["de"], verbosity=0)

    assert list(tmp_path.iterdir()) == []
