"""Puts each fault of this folder into a copy of the project, one at a time, and runs tests on it.

``python -m tests.faults COPY RESULTS [--whole] [ID …]``: COPY is a clone with a ``.venv``; RESULTS a
JSON file that is added to. Without ``--whole`` a fault meets the folders of its own tests.
``EXHAUSTIVE=1`` chooses the tests of ``make test-all``.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
# A fault may make a test wait for ever; the whole suite takes less.
MOST_SECONDS = 1800


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("copy", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("ids", nargs="*")
    parser.add_argument("--whole", action="store_true")
    options = parser.parse_args()
    results = json.loads(options.results.read_text()) if options.results.exists() else {}
    for fault in json.loads((HERE / "faults.json").read_text()):
        name = fault["id"]
        if name in results if not options.ids else name not in options.ids:
            continue
        results[name] = run(options.copy, fault, is_whole=options.whole)
        options.results.write_text(json.dumps(results, indent=1) + "\n")
        print(name, results[name], flush=True)


def run(copy: Path, fault: dict[str, object], *, is_whole: bool) -> dict[str, object]:
    """The exit code of pytest, the seconds, and the first test that failed."""
    subprocess.run(["git", "checkout", "-q", "--", "chat", "project"], cwd=copy, check=True)
    subprocess.run(["git", "apply", HERE / str(fault["patch"])], cwd=copy, check=True)
    began = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "3", "--timeout=200"]
    try:
        done = subprocess.run(
            [*command, *([] if is_whole else folders_of(copy, fault))],
            cwd=copy,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
            capture_output=True,
            text=True,
            timeout=MOST_SECONDS,
        )
        code, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired:
        code, output = -1, ""
    finally:
        subprocess.run(["git", "checkout", "-q", "--", "chat", "project"], cwd=copy, check=True)
    failed = [line for line in output.splitlines() if line.startswith(("FAILED", "SUBFAILED"))]
    seconds = round(time.monotonic() - began)
    return {"code": code, "seconds": seconds, "failed": failed[0][:200] if failed else ""}


def folders_of(copy: Path, fault: dict[str, object]) -> list[str]:
    """The folders of its tests, whatever their files are called now."""
    names = {Path(str(name)) for name in fault["own_tests"]}  # type: ignore[attr-defined]
    folders = {
        name if name.suffix != ".py" or len(name.parts) == 2 else name.parent for name in names
    }
    return sorted(str(folder) for folder in folders if (copy / folder).exists())


if __name__ == "__main__":
    main()
