"""Which package of ``chat/`` may import which, checked in the syntax trees."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# These compute: no framework, no network, no event loop.
PURE = ("wire", "events", "dialects", "result")
# What each package of the engine may import beside itself.
ENGINE: dict[str, tuple[str, ...]] = {
    "wire": (),
    "events": (),
    "dialects": ("wire", "events"),
    "result": ("events",),
    "core": ("events",),
    "models": ("events", "result", "core"),
    "access": ("core", "models"),
    "upstreams": ("wire", "events", "dialects", "core", "models"),
    "runs": (*PURE, "core", "models", "access", "upstreams"),
    "rendering": ("events", "result"),
    "live": ("wire", "events", "core", "models", "access", "runs", "rendering"),
}
# Features import the engine, and of other features what is named here: actions, and a few files.
# Never views, forms, routes, template tags or administration.
FEATURES: dict[str, tuple[str, ...]] = {
    "web": (),
    "access_reasons": (),
    "demo": (),
    "search": (),
    "documents": ("jobs", "search.index", "search.sources", "search.tokens"),
    "tools": (
        "documents.readers",
        *("questions.actions", "questions.replies", "questions.tool_call_cards"),
        "questions.input_schema",
        *("conversations.page", "conversations.page_parts", "demo.models", "demo.mcp"),
        *("search.sources", "documents.actions", "documents.file_tools", "skills.functions"),
    ),
    "servers": ("demo.models",),
    "sessions": (),
    "profile": (),
    "identity": (
        *("accounts.actions", "accounts.adapter", "sessions.actions"),
        *("tools.sign_in.documents", "tools.sign_in.metadata"),
    ),
    "accounts": (
        *("servers.actions", "tools.demo", "tools.sign_in.ending"),
        *("sessions.actions", "sessions.devices"),
    ),
    "artifacts": ("search.sources",),
    "files": (
        *("artifacts.actions", "artifacts.file_rows", "search.sources"),
        *("documents.actions", "documents.kinds", "documents.pages", "documents.texts"),
    ),
    "presence": (),
    "unread": (),
    "drafts": (),
    "mentions": ("search.tokens",),
    "prompts": (),
    "favorites": (),
    "skills": ("files.storage",),
    "conversations": (
        *("files.actions", "files.chips", "files.file_counts", "search.sources", "unread.marks"),
        *("mentions.records", "mentions.marks", "skills.functions"),
    ),
    "message_queue": (
        *("conversations.actions", "conversations.choice_form", "conversations.page"),
        *("conversations.comparisons", "files.actions"),
    ),
    "forks": ("conversations.paths", "files.storage", "search.sources", "tools.outcome"),
    "context": (
        *("conversations.actions", "conversations.choice_form", "conversations.composer"),
        *("conversations.context_start", "conversations.page", "conversations.paths"),
        *("conversations.transcript", "documents.texts", "files.chips"),
    ),
    "comments": ("conversations.page", "mentions.records"),
    "feedback": ("access_reasons.actions", "conversations.answer_text", "conversations.page"),
    "jobs": (),
    "imports": (
        *("conversations.actions", "conversations.titles", "search.sources"),
        *("files.actions", "files.storage", "artifacts.paths", "exports.format", "jobs"),
        *("tools.outcome", "documents.actions", "documents.kinds"),
    ),
    "organization": ("conversations.actions",),
    "compare": (
        *("conversations.actions", "conversations.page", "conversations.paths"),
        *("conversations.transcript", "feedback.actions"),
    ),
    "presets": (
        *("conversations.actions", "conversations.choice_form", "conversations.preset_choice"),
        "conversations.starters",
    ),
    "projects": (
        *("conversations.actions", "conversations.choice_form", "files.actions", "files.storage"),
        *("organization.change_responses", "organization.lines", "organization.undo"),
        *("documents.actions", "presets.actions"),
    ),
    "participants": ("conversations.actions", "conversations.page", "search.tokens"),
    "run_details": (),
    "titles": ("conversations.actions", "conversations.choice_form", "conversations.titles"),
    "questions": (
        "search.sources",
        "conversations.actions",
        "conversations.page",
        "conversations.page_parts",
    ),
    "inbox": ("questions.question_cards", "questions.card_reading", "unread.marks"),
    "exports": (
        *("conversations.paths", "conversations.transcript", "conversations.tags"),
        "conversations.change_lines",
        *("questions.question_cards", "questions.card_reading"),
        *("run_details.log_pages", "jobs", "access_reasons.actions"),
        *("documents.actions", "documents.texts"),
    ),
    "transfers": (
        *("exports.many", "exports.zip_job", "imports.formats", "imports.jobs", "imports.uploads"),
        "jobs",
    ),
    "public_api": (
        *("accounts.actions", "conversations.actions", "files.actions", "questions.actions"),
    ),
    "health": (),
    # The site lists the records that features show there.
    "administration": (
        *("accounts.admin", "servers.admin", "files.admin", "conversations.actions"),
        "conversations.change_lines",
        *("run_details.facts", "health.report", "search.find"),
        *("exports.html_form", "exports.reading"),
    ),
}
# The demo is a server of its own.
DEMO_MAY: tuple[str, ...] = ()
# They put the parts together. Nobody imports them.
COMPOSITION = ("apps", "management")
# Libraries that only some packages may import.
RESERVED: dict[str, tuple[str, ...]] = {
    "httpx": ("upstreams",),
    "channels": ("live", "public_api", "health", "management"),
    "daphne": ("management",),
    "prometheus_client": ("core",),
    # Of `tools` only its package `mcp` does (tests/tools/mcp/test_imports.py).
    "mcp": ("tools",),
    "mcp_types": ("tools",),
    "jwt": ("identity",),
    "httpx2": ("tools",),
    "yaml": ("skills",),
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


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"


def without_types(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)) and not is_for_types(
            child
        ):
            yield child
            yield from without_types(child)


def imports_of(
    module: str, text: str, modules: set[str], *, with_types: bool = True
) -> Iterator[str]:
    """Every name that a module imports, wherever in it: in functions and for types too."""
    found = statements_in(tree_of(text)) if with_types else without_types(tree_of(text))
    for node in found:
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


def may_import(package: str, imported: str) -> bool:
    """Returns whether a module of this package may import a module of ``chat``."""
    target = package_of(imported)
    if target == package or package in COMPOSITION:
        return True
    if package in ENGINE:
        return target in ENGINE[package]
    if package == "demo":
        return target in DEMO_MAY
    if target in ENGINE or (target == "web" and package != "web"):
        return True
    return is_within(imported.removeprefix("chat."), FEATURES[package])


def problem_of(module: str, imported: str, dialects: dict[str, set[str]]) -> str | None:
    """Why this import is forbidden, or ``None``."""
    package = package_of(module)
    if is_within(imported, ("project",)) and package != "management":
        return f"{module} imports {imported}"
    if imported.startswith("chat."):
        if not may_import(package, imported):
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
    """Returns whether a class of this module inherits from a class that it imports from ``base``."""
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
    problems = [f"{name} is in no package of the tables" for name in modules if is_unlisted(name)]
    for name, text in found:
        if is_unlisted(name) or not package_of(name):
            continue
        for imported in imports_of(name, text, modules):
            problem = problem_of(name, imported, dialects)
            if problem:
                problems.append(problem)
    return sorted(set(problems))


def is_unlisted(module: str) -> bool:
    package = package_of(module)
    return bool(package) and package not in {*ENGINE, *FEATURES, *COMPOSITION}


def circle_in(found: list[Source]) -> list[str]:
    """Files that import each other in a circle, or nothing. Imports for types do not count."""
    modules = {name for name, _ in found}
    sorter = TopologicalSorter(
        {
            name: {
                imported
                for imported in imports_of(name, text, modules, with_types=False)
                if imported in modules and imported != name
            }
            for name, text in found
        }
    )
    try:
        sorter.prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


FORBIDDEN = [
    ("chat.wire.sse", "from chat.events import Event"),
    ("chat.events.types", "import chat.models"),
    ("chat.dialects.base", "from chat import result"),
    ("chat.dialects.base", "def late():\n    import django"),
    ("chat.dialects.base", "from asyncio import sleep"),
    ("chat.result.folding", "from chat.dialects.base import Ending"),
    ("chat.result.folding", "import httpx"),
    ("chat.models.run", "from chat.conversations.actions.messages import send"),
    ("chat.rendering.cards", "from chat.models import Run"),
    ("chat.rendering.cards", "from django.db import models"),
    ("chat.runs.execution", "from ..rendering import patches"),
    ("chat.runs.execution", "from chat.questions import actions"),
    ("chat.web.responses", "from chat.conversations import page"),
    ("chat.run_details.trace", "import httpx"),
    ("chat.live.websocket", "import httpx"),
    ("chat.files.actions", "from channels.layers import get_channel_layer"),
    ("chat.live.broadcaster", "from chat.public_api import endpoints"),
    ("chat.questions.views", "from chat.conversations.views.messages import send"),
    ("chat.files.views", "from chat.conversations.actions import messages"),
    ("chat.demo.application", "from chat.models import Run"),
    ("chat.servers.views", "from chat.apps import ChatConfig"),
    ("chat.live.websocket", "from project.server import server"),
    ("chat.health.report", "from project import VERSION"),
    ("chat.unheard_of", ""),
]
ALLOWED = [
    ("chat.dialects.base", "import json\nfrom chat.wire.sse import Frame"),
    ("chat.rendering.cards", "from django.template import engines"),
    ("chat.upstreams.client", "import httpx"),
    ("chat.run_details.views.log", "from chat.runs.log_follower import follow_log"),
    ("chat.runs.execution", "from . import log_follower"),
    ("chat.questions.views", "from chat.conversations import page"),
    ("chat.apps", "from chat.questions import asking"),
    ("chat.management.commands.serve", "from project.server.server import Server"),
]
# Modules that the forbidden imports name, so that they are found to be modules.
OTHERS = (
    *("chat.result", "chat.rendering.patches", "chat.questions.actions", "chat.conversations.page"),
    *("chat.conversations.actions.messages", "chat.public_api.endpoints"),
)
BASE_DIALECT = ("chat.dialects.big", "class Big: ...\ndialect = Big()")
IMPORTING = ("chat.dialects.small", "from chat.dialects.big import dialect as d\ndialect = d")
EXTENDING = (
    "chat.dialects.small",
    "from chat.dialects.big import Big\nclass Small(Big): ...\ndialect = Small()",
)


def test_imports_follow_the_tables() -> None:
    assert problems_in(sources()) == []


def test_files_form_no_circle() -> None:
    assert circle_in(sources()) == []


def test_features_form_no_circle() -> None:
    features = {
        feature: {place.split(".")[0] for place in places} for feature, places in FEATURES.items()
    }

    TopologicalSorter({**ENGINE, **features}).prepare()


def test_check_finds_forbidden_imports(subtests: pytest.Subtests) -> None:
    for module, text in FORBIDDEN:
        with subtests.test(module, text=text):
            others = [(name, "") for name in OTHERS if name != module]

            assert len(problems_in([*others, (module, text)])) == 1


def test_check_finds_circles() -> None:
    assert circle_in(
        [("chat.runs.a", "from chat.runs import b"), ("chat.runs.b", "import chat.runs.a")]
    )


def test_check_accepts_allowed_imports(subtests: pytest.Subtests) -> None:
    for module, text in ALLOWED:
        with subtests.test(module, text=text):
            others = ("chat.runs.log_follower", "chat.conversations.page", "chat.questions.asking")

            assert problems_in([*((name, "") for name in others), (module, text)]) == []


def test_dialect_may_only_import_what_it_extends() -> None:
    assert len(problems_in([BASE_DIALECT, IMPORTING])) == 1
    assert problems_in([BASE_DIALECT, EXTENDING]) == []
