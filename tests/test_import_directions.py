"""The arrows between the floors: who may import whom, read from the syntax trees of ``chat/``."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Room: what it may import beside itself. A room is a module or package directly in ``chat``.
# An entry allows what is below it: ``runs.feed`` only that module, ``models`` all of them.
PURE = ("events", "pieces", "parts", "wire", "dialects", "result", "merging")
RECORDS = ("models", "vault")
ARROWS: dict[str, tuple[str, ...]] = {
    "wire": (),
    "events": (),
    "parts": ("events",),
    "pieces": (),
    "dialects": ("wire", "events", "pieces"),
    "result": ("events", "parts", "pieces"),
    "merging": ("events",),
    "vault": (),
    "metrics": (),
    "health": ("metrics", "models"),
    "models": ("events", "vault"),
    "access": ("models",),
    "accounts": ("models", "metrics"),
    "doorbell": ("metrics",),
    "actions": (*RECORDS, "access", "accounts", "events", "result", "merging", "doorbell"),
    "upstreams": ("wire", "events", "dialects", "models"),
    "runs": (*PURE, *RECORDS, "metrics", "access", "actions", "doorbell", "upstreams"),
    "programs": (
        *(*PURE, *RECORDS, "access", "actions"),
        *("runs.database", "runs.line", "runs.public"),
    ),
    "rendering": ("events", "result", "pieces"),
    "live": ("runs", "rendering", "doorbell", "events", "models", "metrics"),
    "consumers": (
        "programs",
        *("access", "actions", "live", "runs", "events", "models", "wire", "metrics", "health"),
    ),
    "views": (
        *(*PURE, *RECORDS, "access", "accounts", "actions", "rendering", "upstreams"),
        *("programs", "runs.feed", "runs.line", "runs.segments", "live.cursor", "live.epoch"),
        # A run as a recording: read, never changed.
        *(
            "runs.exporting",
            "runs.finals",
            "runs.masking",
            "runs.public",
            "runs.recording",
            "runs.tracing",
        ),
        "live.replaying",
    ),
    "admin": (*PURE, *RECORDS, "access", "actions", "rendering", "runs"),
    "templatetags": ("models", "actions", "access"),
    "demo": ("wire", "events"),
    "apps": (),
    "management": (
        *(*PURE, *RECORDS, "access", "actions", "doorbell", "upstreams", "runs", "demo"),
        *("rendering", "live", "metrics", "health"),
    ),
}
# Packages from elsewhere that belong to some rooms only.
RESERVED: dict[str, tuple[str, ...]] = {
    "httpx": ("upstreams",),
    "channels": ("doorbell", "consumers", "management"),
    "daphne": ("management",),
    "prometheus_client": ("metrics",),
}
# The floors that compute: no framework, no network, no event loop.
COMPUTING = ("wire", "events", "pieces", "parts", "dialects", "result", "merging")
NEVER_WHEN_COMPUTING = ("django", "channels", "httpx", "asyncio", "socket", "threading")
# Rendering is pure too, but for the template engine.
RENDERING_MAY = ("django.template", "django.utils")

Source = tuple[str, str]


def sources() -> list[Source]:
    """Module name and text of everything in ``chat/`` but the migrations."""
    paths = sorted((ROOT / "chat").rglob("*.py"))
    return [(name_of(path), path.read_text()) for path in paths if "migrations" not in path.parts]


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports_of(module: str, text: str, modules: set[str]) -> Iterator[str]:
    """Every name that a module imports, wherever in it: in functions and for types too."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = module.rsplit(".", node.level)[0] + "." if node.level else ""
            origin = (package + (node.module or "")).rstrip(".")
            for alias in node.names:
                full = f"{origin}.{alias.name}"
                yield full if full in modules else origin


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def is_within(module: str, places: tuple[str, ...]) -> bool:
    return any(module == place or module.startswith(f"{place}.") for place in places)


def problem_of(module: str, imported: str, dialects: dict[str, set[str]]) -> str | None:
    """Why this import must not be, or ``None``."""
    room = room_of(module)
    package = imported.split(".")[0]
    if package == "chat" and room_of(imported):
        if room_of(imported) not in (room, "") and not is_within(
            imported.removeprefix("chat."), ARROWS[room]
        ):
            return f"{module} imports {imported}"
        if imported in dialects and module in dialects and imported not in dialects[module]:
            return f"the dialect {module} imports the dialect {imported}"
    elif is_foreign_misplaced(room, imported):
        return f"{module} imports {imported}"
    return None


def is_foreign_misplaced(room: str, imported: str) -> bool:
    package = imported.split(".")[0]
    if room in COMPUTING and package in NEVER_WHEN_COMPUTING:
        return True
    if room == "rendering" and package == "django":
        return not is_within(imported, RENDERING_MAY)
    return package in RESERVED and room not in RESERVED[package]


def dialects_in(found: list[Source]) -> dict[str, set[str]]:
    """Modules that define ``dialect``, each with itself and those that it extends."""
    names = {name for name, text in found if room_of(name) == "dialects" and defines(text)}
    texts = dict(found)
    return {name: {name} | {base for base in names if extends(texts[name], base)} for name in names}


def defines(text: str) -> bool:
    return any(
        isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "dialect"
        for node in ast.parse(text).body
    )


def extends(text: str, base: str) -> bool:
    """Whether a class of this module inherits from a class that it imports from ``base``."""
    tree = ast.parse(text)
    imported = {
        alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module == base
        for alias in node.names
    }
    inherited = {
        getattr(parent, "id", "")
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        for parent in node.bases
    }
    return bool(imported & inherited)


def problems_in(found: list[Source]) -> list[str]:
    modules = {name for name, _ in found}
    dialects = dialects_in(found)
    problems = [f"{name} stands in no room of the table" for name in modules if is_stray(name)]
    for name, text in found:
        if is_stray(name) or not room_of(name):
            continue
        for imported in imports_of(name, text, modules):
            problem = problem_of(name, imported, dialects)
            if problem:
                problems.append(problem)
    return sorted(set(problems))


def is_stray(module: str) -> bool:
    return bool(room_of(module)) and room_of(module) not in ARROWS


def test_every_arrow_points_downwards() -> None:
    assert problems_in(sources()) == []


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("chat.wire.sse", "from chat.events import Event"),
        ("chat.events", "import chat.models"),
        ("chat.dialects.base", "from chat import result"),
        ("chat.dialects.base", "def late():\n    import django"),
        ("chat.dialects.base", "from asyncio import sleep"),
        ("chat.result", "from chat.dialects.base import Ending"),
        ("chat.result", "import httpx"),
        ("chat.models.run", "from chat.actions.messages import send"),
        ("chat.rendering.items", "from chat.models import Run"),
        ("chat.rendering.items", "from django.db import models"),
        ("chat.runs.execution", "from ..rendering import patches"),
        ("chat.runs.execution", "from chat.views import runs"),
        ("chat.views.runs", "from chat.runs.execution import execute"),
        ("chat.views.runs", "from chat.runs import execution"),
        ("chat.views.runs", "import httpx"),
        ("chat.consumers", "import httpx"),
        ("chat.actions.messages", "from channels.layers import get_channel_layer"),
        ("chat.live.hub", "from chat.consumers import Socket"),
        ("chat.unheard_of", ""),
    ],
)
def test_made_up_violation_is_found(module: str, text: str) -> None:
    others = [
        (name, "")
        for name in (
            "chat.result",
            "chat.rendering.patches",
            "chat.runs.execution",
            "chat.views.runs",
        )
    ]
    found = [source for source in others if source[0] != module]

    assert len(problems_in([*found, (module, text)])) == 1


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("chat.dialects.base", "import json\nfrom chat.wire.sse import Frame"),
        ("chat.rendering.items", "from django.template import engines"),
        ("chat.upstreams.client", "import httpx"),
        ("chat.views.runs", "from chat.runs.feed import follow"),
        ("chat.runs.execution", "from . import feed"),
    ],
)
def test_what_the_table_allows_is_no_violation(module: str, text: str) -> None:
    assert problems_in([("chat.runs.feed", ""), (module, text)]) == []


BASE = ("chat.dialects.big", "class Big: ...\ndialect = Big()")


def test_dialect_that_imports_another_is_found() -> None:
    other = ("chat.dialects.small", "from chat.dialects.big import dialect as d\ndialect = d")

    assert len(problems_in([BASE, other])) == 1


def test_dialect_that_extends_another_may_import_it() -> None:
    other = (
        "chat.dialects.small",
        "from chat.dialects.big import Big\nclass Small(Big): ...\ndialect = Small()",
    )

    assert problems_in([BASE, other]) == []
