"""Programs that some tests need, and the Debian package that brings each of them.

A test says what it needs with ``@pytest.mark.needs("chromium", "nginx")``, a fixture with
``require("postgresql")``. Where a program is missing the test is skipped, and the end of the run
names each missing program once, with its package and the number of tests that it cost.
"""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

POSTGRES_FOLDERS = Path("/usr/lib/postgresql")
# PostgreSQL refuses to run as root.
POSTGRES_USER = "postgres"


@dataclass(frozen=True)
class Program:
    """``find`` returns where it is, or ``None``."""

    name: str
    package: str
    find: Callable[[], str | None]

    @property
    def reason(self) -> str:
        return f"no {self.name} on this machine (Debian package: {self.package})"


def _first_of(*names: str) -> Callable[[], str | None]:
    return lambda: next((path for path in map(shutil.which, names) if path), None)


def _postgres_binaries() -> str | None:
    """The folder of its programs; as root only where the user of PostgreSQL exists. Debian keeps
    them out of the path and has a program there that finds them."""
    if os.getuid() == 0 and not _can_change_user():
        return None
    if in_path := shutil.which("initdb"):
        return str(Path(in_path).resolve().parent)
    if shutil.which("pg_ctlcluster") is None:
        return None
    found = sorted(POSTGRES_FOLDERS.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return str(found[-1].parent) if found else None


def _can_change_user() -> bool:
    try:
        pwd.getpwnam(POSTGRES_USER)
    except KeyError:
        return False
    return shutil.which("setpriv") is not None


# Debian keeps nginx in a folder that ordinary users do not have in their path.
_NGINX = ("nginx", "/usr/sbin/nginx")
PROGRAMS = {
    "chromium": Program(
        "Chromium",
        "chromium-headless-shell",
        # The shell first: the same engine without the windows that nobody sees, in two thirds of
        # the time.
        _first_of("chromium-headless-shell", "chromium", "google-chrome"),
    ),
    "postgresql": Program("PostgreSQL", "postgresql", _postgres_binaries),
    "redis": Program("Redis", "redis-server", _first_of("redis-server")),
    "nginx": Program("nginx", "nginx-light", _first_of(*_NGINX)),
    "gettext": Program("gettext", "gettext", _first_of("xgettext")),
    "caddy": Program("Caddy", "caddy", _first_of("caddy")),
    "systemd-analyze": Program("systemd", "systemd", _first_of("systemd-analyze")),
    "webkit": Program("WebKit driver", "webkit2gtk-driver", _first_of("WebKitWebDriver")),
    "xvfb": Program("virtual display", "xvfb", _first_of("Xvfb")),
    "firefox": Program("Firefox", "firefox-esr", _first_of("firefox-esr", "firefox")),
}


def find(name: str) -> str | None:
    """The path of a program of ``PROGRAMS``."""
    return PROGRAMS[name].find()


def require(name: str) -> str:
    """The path of a program; skips the test where the machine does not have it."""
    path = find(name)
    if path is None:
        pytest.skip(PROGRAMS[name].reason)
    return path


def skip_what_cannot_run(items: list[pytest.Item]) -> None:
    missing = {name: program.reason for name, program in PROGRAMS.items() if not program.find()}
    for item in items:
        needed = [name for mark in item.iter_markers("needs") for name in mark.args]
        if unknown := set(needed) - set(PROGRAMS):
            raise pytest.UsageError(f"{item.nodeid} needs unknown programs: {unknown}")
        for name in needed:
            if name in missing:
                item.add_marker(pytest.mark.skip(reason=missing[name]))
                break
