"""Keys of well-known providers are hidden in logs, in errors and in recordings alike."""

from __future__ import annotations

import pytest

from chat.core.key_formats import BEGINNINGS
from chat.upstreams.redaction import Redactor, redact_patterns
from project.logs import without_secrets

# Made up, in the form that each provider gives its keys.
REST = "Abcdefghijklmnop1234567890abcdefghij"
KEYS = {
    "aiza": f"AIza{REST}",
    "akia": "AKIAABCDEFGHIJKLMNOP",
    "asia": "ASIAABCDEFGHIJKLMNOP",
    "eyj": f"eyJ{REST}.eyJ{REST}.{REST}",
    "github_pat_": f"github_pat_{REST}",
    "xox": f"xoxb-{REST}",
    "ya29": f"ya29.{REST}",
}
HIDE = {"log": without_secrets, "error": Redactor([]).text, "recording": redact_patterns}


def test_key_is_hidden_everywhere(subtests: pytest.Subtests) -> None:
    for beginning in BEGINNINGS:
        key = KEYS.get(beginning, f"{beginning}_{REST}")
        for place, hide in HIDE.items():
            with subtests.test(msg=f"{beginning} in a {place}"):
                hidden = hide(f"the key {key}, and more")

                assert key[len(beginning) + 1 :] not in hidden
                assert hidden.startswith("the key ")
                assert hidden.endswith(", and more")


def test_words_stay(subtests: pytest.Subtests) -> None:
    text = "A desk-lamp of asia, npm_run, task-list and eyJust-a-word stay."
    for place, hide in HIDE.items():
        with subtests.test(msg=place):
            assert hide(text) == text
