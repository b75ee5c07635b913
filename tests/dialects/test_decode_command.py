"""The command ``manage.py decode``, which works without a database."""

import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from chat.management.commands import decode as command
from tests.fixtures import RECORDINGS, events_path, name_of, options_of

ROOT = Path(__file__).parents[2]
PLAIN = ROOT / "tests/fixtures/lmstudio/plain.sse"
# Those made under the options that the command has: the defaults.
COMPARED = [path for path in RECORDINGS if not options_of(path)]


def decoded(*arguments: str) -> list[dict[str, object]]:
    out = StringIO()
    call_command("decode", *arguments, stdout=out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_events_of_every_recording(subtests: pytest.Subtests) -> None:
    names = ("--model", "asked/model", "--endpoint", "Test server")
    for recording in COMPARED:
        with subtests.test(name_of(recording)):
            lines = decoded("--dialect", recording.parent.name, *names, str(recording))

            stored = events_path(recording).read_bytes().splitlines()
            assert lines == [json.loads(line) for line in stored]
            assert lines[-1]["type"] == "chat.end"


def test_read_size_changes_nothing(subtests: pytest.Subtests) -> None:
    for split in ["1", "2", "7", "100000"]:
        with subtests.test(split):
            lines = decoded("--dialect", "lmstudio", "--split", split, str(PLAIN))

            assert lines == decoded("--dialect", "lmstudio", str(PLAIN))


def test_each_file_has_its_own_chat_end() -> None:
    lines = decoded("--dialect", "lmstudio", str(PLAIN), str(PLAIN))

    assert [line["seq"] for line in lines if line["type"] == "chat.end"] == [len(lines) // 2] * 2


def test_result_is_one_line_for_each_file() -> None:
    lines = decoded("--dialect", "lmstudio", "--result", str(PLAIN), str(PLAIN))

    assert [line["file"] for line in lines] == [str(PLAIN)] * 2
    assert lines[0]["result"]["ext"]["status"] == "completed"


def test_frames_are_printed_as_decoded() -> None:
    lines = decoded("--dialect", "lmstudio", "--frames", str(PLAIN))

    assert lines[0]["event"] == "chat.start"
    assert json.loads(lines[0]["data"])["type"] == "chat.start"
    assert "".join(line["raw"] for line in lines).encode() == PLAIN.read_bytes()


def test_standard_input_needs_no_database(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "decode", "--dialect", "lmstudio", "-"],
        cwd=ROOT,
        input=PLAIN.read_bytes(),
        capture_output=True,
        check=True,
        # An encoding that could not print the answer, and a place without a database.
        env={**os.environ, "PYTHONIOENCODING": "ascii", "DATA_DIR": str(tmp_path)},
    )

    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[-1]["result"]["output"][-1]["content"].endswith("🌊\n")
    assert not list(tmp_path.rglob("*.sqlite3"))


MISTAKES = [
    (["--dialect", "nope", str(PLAIN)], "no dialect 'nope'"),
    (["--dialect", "lmstudio", "/nowhere/at/all"], "/nowhere/at/all"),
    (["--dialect", "lmstudio", "/"], "/"),
    (["--dialect", "lmstudio", "--split", "0", str(PLAIN)], "at least 1"),
    (["--dialect", "lmstudio"], "FILE"),
]


def test_mistakes_are_named(subtests: pytest.Subtests) -> None:
    for arguments, message in MISTAKES:
        with subtests.test(message=message), pytest.raises(CommandError, match=message):
            decoded(*arguments)


def test_oversized_event_fails_the_run_and_keeps_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = tmp_path / "large.sse"
    recording.write_bytes(
        b'data: {"choices":[{"delta":{"content":"kept"}}]}\n\ndata: ' + b"x" * 5000 + b"\n\n"
    )
    monkeypatch.setattr(command, "MAX_EVENT_BYTES", 1000)

    lines = decoded("--dialect", "openai_chat", str(recording))
    frames = decoded("--dialect", "openai_chat", "--frames", str(recording))

    ext = lines[-1]["result"]["ext"]
    assert lines[-1]["result"]["output"] == [{"type": "message", "content": "kept"}]
    assert (ext["status"], ext["error"]["kind"]) == ("failed", "protocol")
    assert frames[-1]["error"] == ext["error"]["message"]


def test_empty_recording_is_a_cut_run(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for content in [b"", b"\n\n  \n", b": comment\n\n"]:
        with subtests.test(content=content):
            recording = tmp_path / "empty.sse"
            recording.write_bytes(content)

            lines = decoded("--dialect", "lmstudio", str(recording))

            assert [line["type"] for line in lines] == ["chat.start", "error", "chat.end"]
            assert lines[-1]["result"]["ext"]["status"] == "cut"


def test_complete_answer_may_follow_blank_lines(tmp_path: Path) -> None:
    recording = tmp_path / "answer.json"
    recording.write_bytes(b'\xef\xbb\xbf\n\n {"output":[{"type":"message","content":"a"}]}')

    lines = decoded("--dialect", "lmstudio", "--split", "1", str(recording))

    assert lines[-1]["result"]["output"] == [{"type": "message", "content": "a"}]
