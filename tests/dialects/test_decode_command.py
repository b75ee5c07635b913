"""``manage.py decode``, as a person types it; without a database."""

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


@pytest.mark.parametrize("recording", COMPARED, ids=name_of)
def test_events_are_lines_of_json(recording: Path) -> None:
    names = ("--model", "asked/model", "--endpoint", "Test server")
    lines = decoded("--dialect", recording.parent.name, *names, str(recording))

    expected = [json.loads(line) for line in events_path(recording).read_bytes().splitlines()]
    assert lines == expected
    assert lines[-1]["type"] == "chat.end"


@pytest.mark.parametrize("split", ["1", "2", "7", "100000"])
def test_read_size_changes_nothing(split: str) -> None:
    lines = decoded("--dialect", "lmstudio", "--split", split, str(PLAIN))

    assert lines == decoded("--dialect", "lmstudio", str(PLAIN))


def test_each_file_ends_in_its_own_chat_end() -> None:
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


def test_standard_input_is_read_without_a_database(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dialect", "nope", str(PLAIN)], "no dialect 'nope'"),
        (["--dialect", "lmstudio", "/nowhere/at/all"], "/nowhere/at/all"),
        (["--dialect", "lmstudio", "/"], "/"),
        (["--dialect", "lmstudio", "--split", "0", str(PLAIN)], "at least 1"),
        (["--dialect", "lmstudio"], "FILE"),
    ],
)
def test_mistake_is_named(arguments: list[str], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        decoded(*arguments)


def test_event_that_is_too_large_ends_the_run_and_keeps_the_text(
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


@pytest.mark.parametrize("content", [b"", b"\n\n  \n", b": comment\n\n"])
def test_recording_of_nothing_is_a_cut_run(tmp_path: Path, content: bytes) -> None:
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
