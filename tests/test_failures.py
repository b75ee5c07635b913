"""A failed test is printed when it fails, once, and while the other tests run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.databases import ROOT

# The second test ends when the first one was printed, and fails if that never happens.
TESTS = """
import time
from pathlib import Path

def test_one():
    print("printed by the test")
    assert "left" == "right"

def test_other():
    deadline = time.monotonic() + 60
    while not Path("was-printed").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
"""
COMMAND = (sys.executable, "-m", "pytest", "-p", "tests.support.failures", "-p", "xdist", "-rfE")


def run_pytest(folder: Path, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*COMMAND, *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("workers", [0, 2])
def test_failure_is_printed_once_while_others_run(tmp_path: Path, workers: int) -> None:
    (tmp_path / "test_them.py").write_text(TESTS)
    printed = []

    with run_pytest(tmp_path, f"-n{workers}") as process:
        assert process.stdout
        for line in process.stdout:
            printed.append(line.strip())
            # The last line of what is printed of a failed test.
            if line.strip() == "printed by the test":
                (tmp_path / "was-printed").touch()

    assert "1 failed, 1 passed" in printed[-1]
    assert printed.count("test_them.py:7: AssertionError") == 1
    assert [line for line in printed if line.startswith("FAILED")] == [
        "FAILED test_them.py::test_one - AssertionError: assert 'left' == 'right'"
    ]


def test_file_that_cannot_be_read_is_printed(tmp_path: Path) -> None:
    (tmp_path / "test_them.py").write_text("import nothing_of_this_name")

    with run_pytest(tmp_path) as process:
        printed, _ = process.communicate()

    assert printed.count("ERROR collecting test_them.py") == 1
    assert "No module named 'nothing_of_this_name'" in printed
    assert process.returncode == pytest.ExitCode.INTERRUPTED
