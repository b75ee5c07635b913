"""docs/settings.md names every setting, and none that has gone."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAME = r"[A-Z][A-Z_]+"
# Names in the document that are no settings.
OTHERS = {"INFO", "NAME_FILE", "UTC"}


def test_document_names_the_settings() -> None:
    source = (ROOT / "project" / "settings.py").read_text()
    read = set(re.findall(rf'(?:env|mail)\.[a-z_]+\(\s*"({NAME})"', source))

    document = (ROOT / "docs" / "settings.md").read_text()
    named = set(re.findall(rf"`({NAME})`", document))

    assert len(read) > 60
    assert named - OTHERS == read
