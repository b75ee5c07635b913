"""Finds text that a person sees and that no translation reaches, in templates, code and scripts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from chat.web.template_loader import parts_of

LETTERS = re.compile(r"[A-Za-z]{2,}")
TEMPLATE_CODE = re.compile(r"\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)
# Names and samples that read the same in every language.
NAMES = frozenset(
    {
        "Tributary",
        "API",
        "URL",
        "JSON",
        "PNG",
        "ms",
        "KB",
        "MB",
        "tok",
        "Ctrl",
        "Shift",
        "Enter",
        "Esc",
        "Alt",
    }
)
# Blocks of Django's administration that hold class names.
CLASS_BLOCKS = re.compile(r"\{% block (?:bodyclass|coltype) %\}.*?\{% endblock %\}")
# Attributes that are read by people.
SPOKEN = re.compile(
    r"""\b(title|alt|placeholder|label|aria-label|aria-description|aria-roledescription
        |aria-valuetext|data-confirm[\w-]*|data-title|data-label|data-text[\w-]*)="([^"]*)\"""",
    re.VERBOSE,
)

Finding = tuple[int, str]


def in_template(source: str) -> Iterator[Finding]:
    """Line and text of words outside of ``translate`` and ``blocktranslate``."""
    source = CLASS_BLOCKS.sub("", source)
    line = 1
    position = 0
    within_code = 0
    before = ""
    for kind, text in parts_of(source):
        found = source.find(text, position)
        if found >= 0:
            line += source.count("\n", position, found)
            position = found
        if kind == "element":
            attributes = _without_template_tags(text)
            for match in SPOKEN.finditer(attributes):
                if _is_language(match[2]):
                    yield line, f"{match[1]}={match[2].strip()}"
            if re.match(r"<(code|kbd|samp|style|script)\b", text):
                within_code += 1
            elif re.match(r"</(code|kbd|samp|style|script)\b", text):
                within_code -= 1
        elif kind == "text" and before.startswith("{% block body_class"):
            pass
        elif kind == "text" and not within_code and _is_language(text):
            yield line, " ".join(text.split())
        elif kind == "kept" and not text.startswith("{%") and not within_code:
            words = _without_template_tags(text.rsplit("</", 1)[0])
            if _is_language(words):
                yield line, " ".join(words.split())
        before = text


def _without_template_tags(text: str) -> str:
    kept = re.sub(
        r"\{%\s*blocktranslate\b.*?\{%\s*endblocktranslate\s*%\}", "", text, flags=re.DOTALL
    )
    return TEMPLATE_CODE.sub(" ", kept)


def _is_language(text: str) -> bool:
    text = re.sub(r"&#?\w+;", " ", text)
    return any(word not in NAMES for word in LETTERS.findall(text))


# --- Python -------------------------------------------------------------------------------------

MARKERS = frozenset(
    {
        *("gettext", "gettext_lazy", "gettext_noop", "ngettext", "ngettext_lazy", "pgettext"),
        *("pgettext_lazy", "npgettext", "_", "N_"),
    }
)
# Calls whose text is for engineers: logs, and errors that only a mistake in the code can raise.
FOR_ENGINEERS = frozenset(
    {
        *("debug", "info", "warning", "error", "exception", "critical", "log", "warn"),
        *("AssertionError", "ValueError", "TypeError", "RuntimeError", "KeyError", "LookupError"),
        *(
            "NotImplementedError",
            "ImproperlyConfigured",
            "OSError",
            "compile",
            "execute",
            "Warning",
        ),
        *("add_argument", "getLogger", "Counter", "Gauge", "Histogram", "ConnectionError"),
        *("FastCounter", "Reading"),
    }
)
SENTENCE = re.compile(r"^[A-Z][\w’'“”,:;()/%-]*(\s+\S+)+")
NO_SENTENCE = re.compile(
    r"^(SELECT|UNION|INSERT|UPDATE|DELETE|WITH|CREATE|PRAGMA|SET|DROP|BEGIN|LOCK|HTTP|GET|POST"
    r"|RETURNING|IN|IS)\b"
)
# Names of products that look like sentences.
PRODUCTS = frozenset({"Open WebUI"})
FIELD_TEXTS = frozenset(
    {"label", "help_text", "verbose_name", "verbose_name_plural", "empty_label"}
)


def in_python(source: str) -> Iterator[Finding]:
    """Sentences, and the names of fields, that no ``gettext`` marks."""
    tree = ast.parse(source)
    yield from _Finder(tree).findings


class _Finder(ast.NodeVisitor):
    def __init__(self, tree: ast.Module) -> None:
        self.findings: list[Finding] = []
        self.visit(tree)

    def visit_Expr(self, node: ast.Expr) -> None:
        # A docstring, or a comment in the form of one.
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in MARKERS or name in FOR_ENGINEERS:
            return
        for keyword in node.keywords:
            if keyword.arg in FIELD_TEXTS and isinstance(keyword.value, ast.Constant):
                self._take(keyword.value, any_words=True)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        # The help of a management command is English, like that of Django's own.
        if not any(isinstance(each, ast.Name) and each.id == "help" for each in node.targets):
            self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        self.visit(node.test)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        words = "".join(
            str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
        )
        words = words.strip()
        start = words.lstrip("{} ")
        if SENTENCE.match(start) and not NO_SENTENCE.match(start):
            self.findings.append((node.lineno, words))
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.visit(part.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        self._take(node)

    def _take(self, node: ast.Constant, *, any_words: bool = False) -> None:
        text = node.value
        if not isinstance(text, str) or text in PRODUCTS:
            return
        is_text = bool(LETTERS.search(text)) if any_words else bool(SENTENCE.match(text.strip()))
        if is_text and not NO_SENTENCE.match(text.strip()):
            self.findings.append((node.lineno, text))


# --- scripts ------------------------------------------------------------------------------------

SCRIPT_STRING = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<marked>\b(?:gettext|ngettext|pgettext)\()?(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)""",
    re.DOTALL,
)


def in_script(source: str) -> Iterator[Finding]:
    """String literals that read like a sentence or a label and stand in no ``gettext``."""
    before = ""
    for match in SCRIPT_STRING.finditer(source):
        if match["comment"]:
            continue
        text = match["string"][1:-1]
        # The plural form is the second argument.
        is_marked = match["marked"] or before.endswith(("ngettext", "ngettext,"))
        before = "ngettext" if match["marked"] == "ngettext(" else ""
        if not is_marked and SENTENCE.match(text) and not NO_SENTENCE.match(text):
            yield source.count("\n", 0, match.start()) + 1, text


FINDERS = {".html": in_template, ".py": in_python, ".js": in_script}


def findings(paths: list[Path]) -> list[str]:
    """``file:line: text`` for each of them; folders are walked."""
    found = []
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            finder = FINDERS.get(file.suffix)
            if finder and "vendor" not in file.parts and "migrations" not in file.parts:
                found += [f"{file}:{line}: {text}" for line, text in finder(file.read_text())]
    return found


if __name__ == "__main__":
    import sys

    for each in findings([Path(argument) for argument in sys.argv[1:]]):
        print(each)
