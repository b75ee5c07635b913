"""Scripts: modules that import what exists, talk by imports and listed events, and stay small."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

import pytest
from django.conf import settings

from chat.web.scripts import imports_of, modules_of

STATIC = Path(settings.BASE_DIR) / "static"
TEMPLATES = Path(settings.BASE_DIR) / "templates"
# Classic scripts, which run before anything is drawn.
CLASSIC = {"base/sidebar.js", "base/theme.js"}
SCRIPTS = sorted(
    path.relative_to(STATIC).as_posix()
    for path in STATIC.rglob("*.js")
    if "vendor" not in path.relative_to(STATIC).parts
)
MODULES = [name for name in SCRIPTS if name not in CLASSIC]
MOST_LINES = 200
COMMENT = re.compile(r"/\*[\s\S]*?\*/|^\s*//.*$", re.MULTILINE)
IMPORTED = re.compile(r'^import \{([^}]*)\} from "([^"]+)";', re.MULTILINE)
EXPORTED = re.compile(
    r"^export (?:async )?(?:const|let|function\*?|class) (\w+)|^export \{([^}]*)\}", re.MULTILINE
)
# A module that is loaded when it is needed, with what is taken from it.
LOADED_LATER = re.compile(
    r'(?:const \{([^}]*)\} = )?(?:await )?import\("(\.{1,2}/[^"]+)"\)', re.MULTILINE
)
ENTRY = re.compile(r"""\{% page_script "([^"]+)" %\}""")
EVENT = re.compile(r'"((?:htmx|[a-z]+):[a-z:]+)"')


def source(name: str) -> str:
    return COMMENT.sub("", (STATIC / name).read_text())


def names(words: str) -> set[str]:
    return {word.split(" as ")[0].strip() for word in words.split(",") if word.strip()}


def exported_by(name: str) -> set[str]:
    found: set[str] = set()
    for one, several in EXPORTED.findall(source(name)):
        found |= {one} if one else names(several)
    return found


def loaded_later(name: str) -> list[tuple[str, str]]:
    """The modules that a module loads when it needs them, each with what it takes from it."""
    folder = posixpath.dirname(name)
    return [
        (posixpath.normpath(posixpath.join(folder, path)), words)
        for words, path in LOADED_LATER.findall(source(name))
    ]


def test_modules_import_only_what_exists() -> None:
    missing = []
    for name in MODULES:
        for target, words in loaded_later(name):
            missing += [f"{name}: {word}" for word in names(words) - exported_by(target)]
        for words, path in IMPORTED.findall(source(name)):
            (target,) = (each for each in imports_of(name) if each.endswith(path.lstrip("./")))
            missing += [f"{name}: {word}" for word in names(words) - exported_by(target)]
        assert all((STATIC / each).is_file() for each in imports_of(name)), name

    assert missing == []


def test_every_module_is_on_some_page() -> None:
    entries = {
        entry for path in TEMPLATES.rglob("*.html") for entry in ENTRY.findall(path.read_text())
    }
    used = {name for entry in entries for name in modules_of(entry)}
    later = {target for name in used for target, _ in loaded_later(name)}
    used |= {name for target in later for name in modules_of(target)}

    assert used == set(MODULES)


def test_nothing_is_exported_in_vain() -> None:
    used: dict[str, set[str]] = {}
    for name in MODULES:
        for words, path in IMPORTED.findall(source(name)):
            (target,) = (each for each in imports_of(name) if each.endswith(path.lstrip("./")))
            used.setdefault(target, set()).update(names(words))
        for target, words in loaded_later(name):
            used.setdefault(target, set()).update(names(words))

    vain = {name: exported_by(name) - used.get(name, set()) for name in MODULES}
    assert {name: words for name, words in vain.items() if words} == {}


@pytest.mark.parametrize("pattern", [r"\bwindow\b", r"\bglobalThis\b", r"^\(\(\) =>", r"^var "])
def test_no_script_makes_a_global(pattern: str) -> None:
    found = [name for name in MODULES if re.search(pattern, source(name), re.MULTILINE)]

    assert found == []


def test_events_are_named_in_one_place() -> None:
    found = {name: EVENT.findall(source(name)) for name in MODULES if name != "base/events.js"}

    assert {name: events for name, events in found.items() if events} == {}


def test_modules_are_short() -> None:
    lengths = {name: len((STATIC / name).read_text().splitlines()) for name in SCRIPTS}

    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}
