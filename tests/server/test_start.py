"""The command behind ``make run``, and the file that it begins with."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.support.browser.site import free_port
from tests.support.processes.site import ROOT, SOON_SECONDS, environment

pytestmark = pytest.mark.process


# Three processes, one after the other; tests/browser/test_first_run.py follows the same link.
@pytest.mark.slow
def test_printed_setup_link_answers_at_once(data_dir: Path) -> None:
    with (
        (data_dir / "log").open("wb") as log,
        subprocess.Popen(
            [sys.executable, "manage.py", "start"],
            cwd=ROOT,
            env={**environment(data_dir), "PORT": str(free_port())},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as popen,
    ):
        try:
            assert popen.stdout is not None
            link = next(
                found[1] for line in popen.stdout if (found := re.search(r"\| (http\S+) \|", line))
            )
            page = httpx.get(link, trust_env=False, timeout=SOON_SECONDS)
        finally:
            # The demo servers watch this process and go with it.
            popen.terminate()

    assert page.status_code == 200
    assert "Create account" in page.text


def test_database_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    subprocess.run(
        [sys.executable, "manage.py", "migrate", "contenttypes", "--verbosity", "0"],
        cwd=ROOT,
        env=environment(tmp_path),
        check=True,
        umask=0o022,
    )

    assert stat.S_IMODE((tmp_path / "tributary.sqlite3").stat().st_mode) == 0o600
