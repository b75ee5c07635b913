"""What is measured: nothing in between, nginx, a byte pass-through, Tributary in two shapes.

Each is started with everything that it needs, on ports of its own, and ended with it. Where a
program is missing the target says so, and is left out by name.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from glob import glob
from pathlib import Path
from typing import Any

from tests.bench.load.client import ORIGIN, Person
from tests.bench.load.processes import Process, ended_in_order, free_port, python

ROOT = Path(__file__).resolve().parent.parent.parent.parent
NGINX = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port} backlog=1024;
        location / {{
            proxy_pass http://127.0.0.1:{upstream};
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_read_timeout 300s;
        }}
    }}
}}
"""
# What limits one person would stop a benchmark in which one machine is all people.
TRIBUTARY = {
    "LOG_LEVEL": "WARNING",
    "LIVE_ORIGINS": ORIGIN,
    "UPSTREAM_PRIVATE_NETWORKS": "any",
    "CONNECTIONS_PER_PERSON": "10000",
    "RUNS_PER_PERSON": "10000",
    "RUNNER_CAPACITY": "2000",
    "DRAIN_SECONDS": "1",
}


class Missing(Exception):
    """A program that a target needs is not on this machine."""


class Target:
    """One thing between the viewers and the upstream. ``processes`` are what its figures are of."""

    name = ""
    title = ""

    def __init__(self, upstream_port: int, folder: Path) -> None:
        self.upstream_port = upstream_port
        self.folder = folder / self.name
        self.folder.mkdir()
        self.processes: list[Process] = []
        self.port = upstream_port

    def start(self) -> None:
        """Starts what belongs to it. The caller ends it, also after a failure."""

    def end(self) -> None:
        ended_in_order(self.processes, Process.end)
        self.processes.clear()

    def close(self) -> None:
        """Ends what outlives rounds, too."""
        self.end()

    def people(self, count: int) -> list[Person]:
        """Tabs for so many streams; none where bytes are copied."""
        return []

    def results(self, runs: list[str]) -> dict[str, dict[str, Any]]:
        """What was stored for each run, where anything is stored."""
        return {}

    @property
    def log(self) -> Path:
        return self.folder / "log"


class Direct(Target):
    name = "direct"
    title = "direct"


class Nginx(Target):
    name = "nginx"
    title = "nginx"

    def start(self) -> None:
        program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
        if program is None:
            raise Missing("no nginx on this machine (Debian: nginx-light)")
        self.port = free_port()
        config = self.folder / "nginx.conf"
        config.write_text(
            NGINX.format(folder=self.folder, port=self.port, upstream=self.upstream_port)
        )
        command = [program, "-c", str(config), "-e", str(self.folder / "error.log")]
        self.processes.append(Process("nginx", command, log=self.log))
        self.processes[0].until_listens(self.port)


class PassThrough(Target):
    name = "passthrough"
    title = "Starlette + httpx"

    def start(self) -> None:
        self.port = free_port()
        arguments = ["--port", str(self.port), "--no-access-log", "--log-level", "warning"]
        process = python(
            "pass-through",
            "uvicorn",
            "tests.bench.load.passthrough:app",
            *arguments,
            log=self.log,
            env={"UPSTREAM_URL": f"http://127.0.0.1:{self.upstream_port}"},
        )
        self.processes.append(process)
        process.until_listens(self.port)


class Tributary(Target):
    """Keeps its database for all rounds; its processes are new in each."""

    def __init__(self, upstream_port: int, folder: Path) -> None:
        super().__init__(upstream_port, folder)
        self._people: list[Person] = []
        self.env: dict[str, str] = {}
        self.servers: list[Process] = []

    def seed(self, people: int, conversations: int) -> None:
        """Once: the tables and the people that are needed, ``conversations`` for each person."""
        made = self._site("seed", f"http://127.0.0.1:{self.upstream_port}", people, conversations)
        tabs = zip(made["sessions"], made["conversations"], strict=True)
        rooms = [(session, rooms) for session, rooms in tabs]
        # Everybody's first, then everybody's second.
        self._people = [
            Person(
                session=session,
                choice=made["choice"],
                conversation=theirs[number]["id"],
                first=theirs[number]["first"],
                tail=theirs[number]["tail"],
                head=theirs[number]["head"],
            )
            for number in range(conversations)
            for session, theirs in rooms
        ]

    def people(self, count: int) -> list[Person]:
        if len(self._people) < count:
            raise AssertionError("more streams than conversations were seeded")
        taken, self._people = self._people[:count], self._people[count:]
        return taken

    def results(self, runs: list[str]) -> dict[str, dict[str, Any]]:
        return dict(self._site("results", stdin="\n".join(runs)))

    def _site(self, verb: str, *arguments: object, stdin: str = "") -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.load.site", verb, *map(str, arguments)],
            cwd=ROOT,
            env={**self._kept(), **self.env},
            input=stdin.encode(),
            stdout=subprocess.PIPE,
            check=True,
        )
        return json.loads(done.stdout)

    @staticmethod
    def _kept() -> dict[str, str]:
        return {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}

    def _manage(self, kind: str, *arguments: str) -> Process:
        command = [sys.executable, "manage.py", *arguments]
        process = Process(kind, command, log=self.folder / f"{kind}.log", env=self.env)
        self.processes.append(process)
        return process

    def close(self) -> None:
        self.end()
        ended_in_order(self.servers, self._end_server)
        self.servers.clear()

    @staticmethod
    def _end_server(process: Process) -> None:
        process.end()


class Embedded(Tributary):
    name = "embedded"
    title = "Tributary, embedded, SQLite"

    def __init__(self, upstream_port: int, folder: Path) -> None:
        super().__init__(upstream_port, folder)
        self.env = {**TRIBUTARY, "DATA_DIR": str(self.folder), "RUNNER": "embedded"}

    def start(self) -> None:
        self.port = free_port()
        # The load has an origin of its own, and browsers come from this one.
        self.env["LIVE_ORIGINS"] = f"{ORIGIN},http://127.0.0.1:{self.port}"
        web = self._manage("web + runner", "serve", "--port", str(self.port))
        web.until_listens(self.port)


class External(Tributary):
    """One runner and one web process, on a PostgreSQL and a Redis of their own."""

    name = "external"
    title = "Tributary: runner, web, PostgreSQL, Redis"

    def __init__(self, upstream_port: int, folder: Path) -> None:
        super().__init__(upstream_port, folder)
        self._start_postgres()
        self._start_redis()

    def _start_postgres(self) -> None:
        initdb = _postgres_program("initdb")
        # It refuses to be root.
        user = "postgres" if os.geteuid() == 0 else None
        data = Path(tempfile.mkdtemp(prefix="tributary-bench-pg-"))
        self._postgres_data = data
        if user:
            shutil.chown(data, user, user)
        subprocess.run(
            [initdb, "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"],
            cwd="/",
            user=user,
            group=user,
            extra_groups=None if user is None else [],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        port = free_port()
        options = ["-D", str(data), "-p", str(port), "-h", "127.0.0.1", "-k", str(data)]
        server = Process(
            "PostgreSQL", [_postgres_program("postgres"), *options], log=self.log, user=user
        )
        self.servers.append(server)
        server.until_says("ready to accept connections")
        self.env["DATABASE_URL"] = f"postgres://postgres@127.0.0.1:{port}/postgres"

    def _start_redis(self) -> None:
        program = shutil.which("redis-server")
        if program is None:
            raise Missing("no redis-server on this machine")
        port = free_port()
        command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir"]
        redis = Process("Redis", [*command, str(self.folder)], log=self.folder / "redis.log")
        self.servers.append(redis)
        redis.until_listens(port)
        self.env |= {
            **TRIBUTARY,
            "DATA_DIR": str(self.folder),
            "REDIS_URL": f"redis://127.0.0.1:{port}/0",
            "RUNNER": "external",
        }

    def start(self) -> None:
        self.port = free_port()
        self.processes += self.servers
        web = self._manage("web", "serve", "--port", str(self.port))
        runner = self._manage("runner", "runner")
        web.until_listens(self.port)
        runner.until_says("Redis|runner|")

    def end(self) -> None:
        ours = [process for process in self.processes if process not in self.servers]
        ended_in_order(ours, Process.end)
        self.processes.clear()

    def close(self) -> None:
        super().close()
        shutil.rmtree(self._postgres_data, ignore_errors=True)


def _postgres_program(name: str) -> str:
    found = shutil.which(name) or next(iter(sorted(glob(f"/usr/lib/postgresql/*/bin/{name}"))), "")
    if not found:
        raise Missing(f"no {name} on this machine (Debian: postgresql)")
    return found


TARGETS: Mapping[str, Callable[[int, Path], Target]] = {
    kind.name: kind for kind in (Direct, Nginx, PassThrough, External, Embedded)
}
