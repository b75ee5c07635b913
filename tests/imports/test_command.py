"""``manage.py import_conversations``: the report, progress, exit codes."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from chat import access
from chat.models import Conversation, Import, Team, User
from tests.imports.files import linked
from tests.imports.writers import Said, to_chatgpt

TREE = [Said(-1, "Why?"), Said(0, "So.")]


class Run:
    """What the command has printed, and its exit code."""

    def __init__(self, *words: object) -> None:
        out, err = io.StringIO(), io.StringIO()
        self.code: object = 0
        try:
            call_command("import_conversations", *map(str, words), stdout=out, stderr=err)
        except SystemExit as end:
            self.code = end.code
        self.out, self.err = out.getvalue(), err.getvalue()

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found


@pytest.fixture
def export(tmp_path: Path) -> Path:
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([to_chatgpt(TREE, 1), to_chatgpt(TREE, 1, source_id="c2")]))
    return path


def test_report_and_progress(export: Path, alice: User, team: Team) -> None:
    done = Run(export, "--user", "ALICE@example.org", "--team", "River", "--json")

    batch = Import.objects.get()
    assert done.json == {
        "format": "chatgpt",
        "dry_run": False,
        "import": str(batch.public_id),
        "found": 2,
        "created": 2,
        "skipped": 0,
        "empty": 0,
        "changed": [],
        "not_understood": [],
        "left_out": [],
    }
    assert done.err == "2 / 2\n"
    assert done.code == 0
    assert batch.user == alice


def test_dry_run_in_words(export: Path, alice: User, team: Team) -> None:
    done = Run(export, "--user", alice.email, "--team", team.name, "--dry-run")

    words = " ".join(done.out.split())
    assert "Format: ChatGPT Found: 2 To be created: 2" in words
    assert "Import:" not in words
    assert not Conversation.objects.exists()


def test_what_is_not_understood_exits_with_one(tmp_path: Path, alice: User, team: Team) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps([to_chatgpt(TREE, 1), {"id": "bad", "title": "Broken"}]))

    done = Run(path, "--user", alice.email, "--team", team.name)

    assert done.code == 1
    assert "  bad “Broken”: No messages" in done.out
    assert Conversation.objects.count() == 1


def test_changed_conversation_is_listed(export: Path, alice: User, team: Team) -> None:
    Run(export, "--user", alice.email, "--team", team.name)
    tree = [*TREE, Said(1, "And?"), Said(2, "Then.")]
    export.write_text(json.dumps([to_chatgpt(tree, 3)]))

    done = Run(export, "--user", alice.email, "--team", team.name)

    assert done.code == 0
    assert "not imported again:\n  c1 “Rivers”\n" in done.out


def test_refused_file(tmp_path: Path, alice: User, team: Team) -> None:
    path = tmp_path / "export.zip"
    path.write_bytes(linked().getvalue())
    words = [path, "--user", alice.email, "--team", team.name]

    done = Run(*words, "--json")

    assert done.code == 1
    assert "link" in done.json["refused"]
    with pytest.raises(CommandError, match="link"):
        Run(*words)
    assert not Import.objects.exists()


def test_undo(export: Path, alice: User, bob: User, team: Team) -> None:
    made = Run(export, "--user", alice.email, "--team", team.name, "--json").json["import"]

    with pytest.raises(CommandError, match="no import"):
        Run("--user", bob.email, "--undo", made)
    done = Run("--user", alice.email, "--undo", made, "--json")

    assert done.json == {"import": made, "deleted": 2, "kept": []}
    assert not access.visible_conversations(alice).exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--user", "nobody@example.org", "FILE"], "No active user"),
        (["--user", "alice@example.org", "FILE"], "--team"),
        (["--user", "alice@example.org"], "Give a file"),
        (["--user", "alice@example.org", "FILE", "--undo", "x"], "Give a file"),
        (["--user", "alice@example.org", "--undo", "x"], "no import"),
        (["--user", "vera@example.org", "--team", "River", "FILE"], "can’t write"),
        (["--user", "alice@example.org", "--team", "Mountain", "FILE"], "can’t write"),
        (["--user", "alice@example.org", "--team", "River", "/nowhere"], "No such file"),
    ],
)
def test_wrong_arguments(
    words: list[str], reason: str, export: Path, alice: User, viewer: User, team: Team
) -> None:
    with pytest.raises(CommandError, match=reason):
        Run(*(export if word == "FILE" else word for word in words))


def test_team_name_that_is_not_unique(export: Path, alice: User, team: Team) -> None:
    other = Team.objects.create(name=team.name)
    other.memberships.create(user=alice, role="member")

    with pytest.raises(CommandError, match="several teams"):
        Run(export, "--user", alice.email, "--team", team.name)
