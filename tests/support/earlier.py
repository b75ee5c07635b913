"""The source of an earlier version, from the history of this repository."""

import subprocess
from pathlib import Path

import pytest

from tests.support.databases import made_once
from tests.support.processes.site import ROOT


def source_before(added: str) -> Path:
    """The source before the commit that added this file. Skips the test where the history is
    missing, as in a shallow clone."""
    parent = _git("log", "--diff-filter=A", "--max-count=1", "--format=%P", "--", added)
    archive = _git("archive", parent) if parent else None
    if parent is None or archive is None:
        pytest.skip(f"the history of {added} is missing")

    def unpack(folder: Path) -> None:
        subprocess.run(["tar", "-x"], cwd=folder, input=archive, check=True)

    return made_once(f"source-{parent.decode()}", unpack)


def _git(*arguments: str | bytes) -> bytes | None:
    """The output; nothing where there is no history, or none that goes so far back."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True)
    except FileNotFoundError:
        return None
    return done.stdout.strip(b"\n") if done.returncode == 0 else None
