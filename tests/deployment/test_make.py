"""`make run` and `make test` on a machine whose Python won't do: one sentence, before anything is made."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from deploy import check_python
from tests.support.processes.site import ROOT

# A Python that says of itself what the test wants, and then does as it was told.
PRETENDER = """#!{python}
import runpy, sys
{pretence}
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""

# (what the Python pretends, a part of the sentence)
UNUSABLE_PYTHONS = [
    ("sys.version_info = (3, 10, 12)", "must be Python 3.11 to 3.13, not 3.10.12 ("),
    ("sys.modules['venv'] = None", "lacks venv. On Debian and Ubuntu, run `apt install python3."),
    ("sys.modules['ensurepip'] = None", "lacks ensurepip. "),
]


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("goal", ["run", "test"])
def test_unusable_python_is_one_sentence(
    goal: str, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    python = tmp_path / "python3"
    for pretence, words in UNUSABLE_PYTHONS:
        with subtests.test(msg=pretence):
            python.write_text(PRETENDER.format(python=sys.executable, pretence=pretence))
            python.chmod(0o700)

            made = make(goal, f"PYTHON={python}", f"VENV={tmp_path / 'venv'}")

            assert made.returncode == 2
            assert made.stdout == ""
            sentence, of_make = made.stderr.splitlines()
            assert sentence.startswith("PYTHON must ")
            assert words in sentence
            assert of_make.startswith("make: ***")
            assert not (tmp_path / "venv").exists()


def test_missing_python_is_one_sentence(tmp_path: Path) -> None:
    made = make("run", "PYTHON=python3.no", f"VENV={tmp_path / 'venv'}")

    assert made.returncode == 2
    assert made.stderr.startswith("PYTHON must be Python 3.11 or newer; python3.no was not found")


def test_environment_of_an_older_python_is_one_sentence(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    pretence = "sys.version_info = (3, 10, 12); sys.base_prefix = '/usr'; sys.prefix = '/venv'"
    python.write_text(PRETENDER.format(python=sys.executable, pretence=pretence))
    python.chmod(0o700)

    made = make("run", f"VENV={tmp_path}")

    assert made.returncode == 2
    assert "Run `make clean`, then choose" in made.stderr


def test_supported_pythons_are_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest, newest = (
        check_python.dotted(each) for each in (check_python.OLDEST, check_python.NEWEST_TESTED)
    )

    assert project["requires-python"] == f">={oldest}"
    tested = [each.rpartition(" ")[2] for each in project["classifiers"]]
    assert (tested[0], tested[-1]) == (oldest, newest)
    assert f"Python {oldest} to {newest}" in (ROOT / "README.md").read_text()
