"""Which package of ``chat/`` may import which, checked in the syntax trees."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# These compute: no framework, no network, no event loop.
PURE = ("events", "pieces", "parts", "wire", "dialects", "result", "merging")
RECORDS = ("models", "vault")
# What each package (or module) directly in ``chat`` may import beside itself. An entry allows what
# is below it: ``runs.feed`` only that module, ``models`` all of them.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
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
        "live.list_version",
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
# Libraries that only some packages may import.
RESERVED: dict[str, tuple[str, ...]] = {
    "httpx": ("upstreams",),
    "channels": ("doorbell", "consumers", "management"),
    "daphne": ("management",),
    "prometheus_client": ("metrics",),
}
NOT_PURE = ("django", "channels", "httpx", "asyncio", "socket", "threading")
# Rendering is pure too, but for the template engine.
RENDERING_MAY = ("django.template", "django.utils")

Source = tuple[str, str]


def sources() -> list[Source]:
    """Module name and text of everything in ``chat/`` but the migrations."""
    paths = sorted((ROOT / "chat").rglob("*.py"))
    return [(name_of(path), path.read_text()) for path in paths if "migrations" not in path.parts]


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def tree_of(text: str) -> ast.Module:
    return ast.parse(text)


def statements_in(node: ast.AST) -> Iterator[ast.AST]:
    """All statements at any depth. Imports are statements, and expressions are most of a tree."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield child
            yield from statements_in(child)


def imports_of(module: str, text: str, modules: set[str]) -> Iterator[str]:
    """Every name that a module imports, wherever in it: in functions and for types too."""
    for node in statements_in(tree_of(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = module.rsplit(".", node.level)[0] + "." if node.level else ""
            origin = (package + (node.module or "")).rstrip(".")
            for alias in node.names:
                full = f"{origin}.{alias.name}"
                yield full if full in modules else origin


def package_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def is_within(module: str, places: tuple[str, ...]) -> bool:
    return any(module == place or module.startswith(f"{place}.") for place in places)


def problem_of(module: str, imported: str, dialects: dict[str, set[str]]) -> str | None:
    """Why this import is forbidden, or ``None``."""
    package, target = package_of(module), package_of(imported)
    if target and imported.startswith("chat."):
        is_allowed = target == package or is_within(
            imported.removeprefix("chat."), MAY_IMPORT[package]
        )
        if not is_allowed:
            return f"{module} imports {imported}"
        if imported in dialects and module in dialects and imported not in dialects[module]:
            return f"the dialect {module} imports the dialect {imported}"
    elif is_misplaced_library(package, imported):
        return f"{module} imports {imported}"
    return None


def is_misplaced_library(package: str, imported: str) -> bool:
    library = imported.split(".")[0]
    if package in PURE and library in NOT_PURE:
        return True
    if package == "rendering" and library == "django":
        return not is_within(imported, RENDERING_MAY)
    return library in RESERVED and package not in RESERVED[library]


def dialects_in(found: list[Source]) -> dict[str, set[str]]:
    """Modules that define ``dialect``, each with itself and those that it extends."""
    names = {name for name, text in found if package_of(name) == "dialects" and defines(text)}
    texts = dict(found)
    return {name: {name} | {base for base in names if extends(texts[name], base)} for name in names}


def defines(text: str) -> bool:
    return any(
        isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "dialect"
        for node in tree_of(text).body
    )


def extends(text: str, base: str) -> bool:
    """Whether a class of this module inherits from a class that it imports from ``base``."""
    tree = tree_of(text)
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
    problems = [f"{name} is in no package of the table" for name in modules if is_unlisted(name)]
    for name, text in found:
        if is_unlisted(name) or not package_of(name):
            continue
        for imported in imports_of(name, text, modules):
            problem = problem_of(name, imported, dialects)
            if problem:
                problems.append(problem)
    return sorted(set(problems))


def is_unlisted(module: str) -> bool:
    return bool(package_of(module)) and package_of(module) not in MAY_IMPORT


FORBIDDEN = [
    ("chat.wire.sse", "from chat.events import Event"),
    ("chat.events", "import chat.models"),
    ("chat.dialects.base", "from chat import result"),
    ("chat.dialects.base", "def late():\n    import django"),
    ("chat.dialects.base", "from asyncio import sleep"),
    ("chat.result", "from chat.dialects.base import Ending"),
    ("chat.result", "import httpx"),
    ("chat.models.run", "from chat.actions.messages import send"),
    ("chat.rendering.cards", "from chat.models import Run"),
    ("chat.rendering.cards", "from django.db import models"),
    ("chat.runs.execution", "from ..rendering import patches"),
    ("chat.runs.execution", "from chat.views import runs"),
    ("chat.views.runs", "from chat.runs.execution import execute"),
    ("chat.views.runs", "from chat.runs import execution"),
    ("chat.views.runs", "import httpx"),
    ("chat.consumers", "import httpx"),
    ("chat.actions.messages", "from channels.layers import get_channel_layer"),
    ("chat.live.hub", "from chat.consumers import Socket"),
    ("chat.unheard_of", ""),
]
ALLOWED = [
    ("chat.dialects.base", "import json\nfrom chat.wire.sse import Frame"),
    ("chat.rendering.cards", "from django.template import engines"),
    ("chat.upstreams.client", "import httpx"),
    ("chat.views.runs", "from chat.runs.feed import follow"),
    ("chat.runs.execution", "from . import feed"),
]
# Modules that the forbidden imports name, so that they are found to be modules.
OTHERS = ("chat.result", "chat.rendering.patches", "chat.runs.execution", "chat.views.runs")
BASE_DIALECT = ("chat.dialects.big", "class Big: ...\ndialect = Big()")
IMPORTING = ("chat.dialects.small", "from chat.dialects.big import dialect as d\ndialect = d")
EXTENDING = (
    "chat.dialects.small",
    "from chat.dialects.big import Big\nclass Small(Big): ...\ndialect = Small()",
)


def test_imports_follow_the_table() -> None:
    assert problems_in(sources()) == []


def test_check_finds_forbidden_imports(subtests: pytest.Subtests) -> None:
    for module, text in FORBIDDEN:
        with subtests.test(module, text=text):
            others = [(name, "") for name in OTHERS if name != module]

            assert len(problems_in([*others, (module, text)])) == 1


def test_check_accepts_allowed_imports(subtests: pytest.Subtests) -> None:
    for module, text in ALLOWED:
        with subtests.test(module, text=text):
            assert problems_in([("chat.runs.feed", ""), (module, text)]) == []


def test_dialect_may_only_import_what_it_extends() -> None:
    assert len(problems_in([BASE_DIALECT, IMPORTING])) == 1
    assert problems_in([BASE_DIALECT, EXTENDING]) == []
