"""Builds the image without a container engine: ``python -m tests.deployment.image``.

Every stage has a folder as its root. COPY and the commands of Python run there, with adapted
paths. Steps that need a root file system of their own (system packages, removing pip from the
base) are listed and left out. Then the last stage's command serves, as its user and from files
that it may not write, until the image's own health check passes. This takes about a minute, so it
is not a test: `make image-check`.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.deployment.dockerfile import ROOT, Stage, Step, copied, read

# Commands that need a root file system of their own.
NOT_HERE = ("apt-get", "pip uninstall")
PATIENCE_SECONDS = 120


def say(text: str) -> None:
    print(text, flush=True)


class Image:
    """The roots of the stages below ``folder``, by name; the last one has none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.left_out: list[str] = []
        self._tools = folder / "tools"
        self._tools.mkdir()
        # Stands for the base image's Python. It is copied because other users cannot reach one
        # that lies below somebody's home.
        shutil.copytree(
            sys.base_prefix,
            self._tools / "base",
            symlinks=True,
            ignore=shutil.ignore_patterns("__pycache__", "test", "tests", "idlelib", "*.a"),
        )

    def root(self, name: str) -> Path:
        return self.folder / (name or "last")

    def build(self, stages: list[Stage]) -> None:
        for stage in stages:
            root = self.root(stage.name)
            (root / "tmp").mkdir(parents=True)
            for step in stage.steps:
                if step.word == "COPY":
                    self._copy(root, step)
                elif step.word == "RUN":
                    self._run(root, step.text)

    def _copy(self, root: Path, step: Step) -> None:
        sources, destination, stage = copied(step)
        for source in sources:
            origin = (self.root(stage) / source.lstrip("/")) if stage else ROOT / source
            target = root / destination.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            say(f"COPY {source} {destination}")
            if origin.is_dir():
                shutil.copytree(
                    origin, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
                )
            else:
                shutil.copy(origin, target)

    def _run(self, root: Path, command: str) -> None:
        if any(word in command for word in NOT_HERE):
            self.left_out.append(command)
            return
        say(f"RUN {command}")
        path = f"{self._tools}/base/bin:{os.environ['PATH']}"
        subprocess.run(
            ["sh", "-ec", self.placed(root, command)], env={**os.environ, "PATH": path}, check=True
        )

    @staticmethod
    def placed(root: Path, text: str) -> str:
        for path in ("/opt/tributary", "/tmp/requirements.txt", "/data"):
            text = text.replace(path, f"{root}{path}")
        return text


def serve(image: Image, last: Stage) -> None:
    root = image.root("")
    user = int(last.one("USER").text.split(":")[0])
    port = free_port()
    environment = {name: image.placed(root, value) for name, value in last.environment.items()} | {
        # The copied Python finds its own library, not the system's.
        "LD_LIBRARY_PATH": str(image.folder / "tools" / "base" / "lib"),
        "HOST": "127.0.0.1",
        "PORT": str(port),
    }
    place = Path(image.placed(root, last.one("WORKDIR").text))
    entrypoint = last.one("ENTRYPOINT").list
    identity = {"user": user, "group": user, "extra_groups": []} if os.getuid() == 0 else {}
    refuse_writing(place, user)

    def run(*command: str) -> int:
        return subprocess.run([*command], cwd=place, env=environment, **identity).returncode

    python = Path(environment["PATH"].split(":")[0], "python")
    # As the entrypoint names it, found on the image's own path.
    program = [str(python), *entrypoint[1:]]
    assert run(*program, "migrate", "--verbosity", "0") == 0
    say(f"as user {user}: {' '.join([*entrypoint, *last.one('CMD').list])}")
    served = subprocess.Popen(
        [*program, *last.one("CMD").list], cwd=place, env=environment, **identity
    )
    try:
        _, _, health = last.one("HEALTHCHECK").text.partition(" CMD ")
        check = Step("CMD", health).list
        deadline = time.monotonic() + PATIENCE_SECONDS
        while run(str(python), *check[1:]) != 0:
            assert served.poll() is None, "the server has ended"
            assert time.monotonic() < deadline, "the health check never passed"
            time.sleep(0.5)
        say("the health check passes")
    finally:
        number = getattr(signal, last.one("STOPSIGNAL").text)
        served.send_signal(number)
        assert served.wait(60) == 0, "it did not end cleanly"
    say("ended cleanly")


def refuse_writing(place: Path, user: int) -> None:
    """Checks that the user may not write to the program."""
    subprocess.run(["chmod", "-R", "go-w,a+rX", str(place)], check=True)
    if os.getuid() != 0:
        return
    for parent in [place, *place.parents]:
        if parent != Path("/") and not os.stat(parent).st_mode & 0o001:
            parent.chmod(0o755)
    tried = subprocess.run(
        ["sh", "-c", f"echo x >> {place}/manage.py"], user=user, group=user, extra_groups=[]
    )
    assert tried.returncode != 0, "the user may write to the program"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    stages = read()
    folder = Path(tempfile.mkdtemp(prefix="tributary-image-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        image = Image(folder)
        image.build(stages)
        serve(image, stages[-1])
        size = subprocess.run(
            ["du", "-sm", str(image.root("") / "opt")],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout.split()[0]
        say(f"size of /opt without the base: {size} MB")
        for command in image.left_out:
            say(f"NOT RUN HERE: {command}")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
