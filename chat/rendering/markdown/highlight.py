"""Source code to HTML: escaped text inside the highlighter's own spans."""

import re
from functools import cache
from html import escape

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Token, _TokenType
from pygments.util import ClassNotFound

# Lexers are regular expressions of very different care; beyond this size colour is not worth the risk.
MAX_CHARACTERS = 50_000

# Languages that people paste. A closed list, because the language name is the model's and each of the
# several hundred other lexers is one more way to spend a processor on hostile text.
LANGUAGES = {
    *("bash", "sh", "shell", "zsh", "console", "shell-session", "powershell", "ps1", "batch"),
    *("python", "py", "python3", "pycon", "javascript", "js", "jsx", "typescript", "ts", "tsx"),
    *("json", "jsonc", "yaml", "yml", "toml", "ini", "cfg", "properties", "docker", "dockerfile"),
    *("html", "xml", "svg", "css", "scss", "sass", "less", "vue", "django", "jinja", "graphql"),
    *("c", "cpp", "c++", "csharp", "cs", "c#", "java", "kotlin", "scala", "groovy", "swift"),
    *("go", "golang", "rust", "rs", "zig", "nim", "objective-c", "objc", "dart", "ruby", "rb"),
    *("php", "perl", "lua", "r", "julia", "matlab", "fortran", "haskell", "hs", "ocaml", "fsharp"),
    *("elixir", "erlang", "clojure", "lisp", "scheme", "elm", "sql", "postgresql", "sqlite3"),
    *("diff", "patch", "make", "makefile", "cmake", "nginx", "hcl", "terraform", "nix", "protobuf"),
    *("markdown", "md", "rst", "latex", "tex", "http", "vim", "asm", "nasm", "solidity", "awk"),
}

# Endings of file names, for languages that are not their own ending.
_LANGUAGES_BY_ENDING = (
    *(("sh", "bash shell zsh console shell-session"), ("ps1", "powershell"), ("bat", "batch")),
    *(("py", "python python3 pycon"), ("js", "javascript"), ("ts", "typescript")),
    *(("html", "django jinja"), ("cpp", "c++"), ("cs", "csharp c#"), ("go", "golang")),
    *(("m", "objective-c objc matlab"), ("rs", "rust"), ("rb", "ruby"), ("pl", "perl")),
    *(("kt", "kotlin"), ("jl", "julia"), ("f90", "fortran"), ("hs", "haskell"), ("ml", "ocaml")),
    *(("fs", "fsharp"), ("ex", "elixir"), ("erl", "erlang"), ("clj", "clojure")),
    *(("scm", "scheme"), ("sql", "postgresql sqlite3"), ("diff", "patch"), ("asm", "nasm")),
    *(("dockerfile", "docker"), ("mk", "make makefile"), ("conf", "nginx")),
    *(("tf", "hcl terraform"), ("proto", "protobuf"), ("md", "markdown"), ("tex", "latex")),
    *(("sol", "solidity"), ("mmd", "mermaid"), ("csv", "csv"), ("tsv", "tsv"), ("txt", "http")),
)
_ENDINGS = {
    language: ending for ending, languages in _LANGUAGES_BY_ENDING for language in languages.split()
}
_FILE_NAME = re.compile(r"\w[\w.-]{0,80}\.[A-Za-z][A-Za-z0-9]{0,9}", re.ASCII)
_BETWEEN_NAMES = re.compile(r"[\s=\"'{}:,/\\]+")


def file_name(label: str) -> str:
    """The file name of code with this label: the name in the label, or ``code`` and an ending."""
    words = _BETWEEN_NAMES.split(label)
    named = next((word for word in words if _FILE_NAME.fullmatch(word)), None)
    if named is not None:
        return named
    language = label.split(maxsplit=1)[0].lower() if label.strip() else ""
    ending = _ENDINGS.get(language) or (language if language in LANGUAGES else "txt")
    return f"code.{ending}"


# Few classes, so that the HTML of code stays small; the style sheet names a colour for each.
_CLASSES: dict[_TokenType, str] = {
    Token.Comment: "hl-comment",
    Token.Comment.Preproc: "hl-keyword",
    Token.Keyword: "hl-keyword",
    Token.Keyword.Type: "hl-type",
    Token.Operator.Word: "hl-keyword",
    Token.Literal.String: "hl-string",
    Token.Literal.Number: "hl-number",
    Token.Literal.Date: "hl-number",
    Token.Name.Function: "hl-function",
    Token.Name.Class: "hl-type",
    Token.Name.Exception: "hl-type",
    Token.Name.Builtin: "hl-builtin",
    Token.Name.Constant: "hl-number",
    Token.Name.Decorator: "hl-builtin",
    Token.Name.Tag: "hl-keyword",
    Token.Name.Attribute: "hl-function",
    Token.Generic.Heading: "hl-function",
    Token.Generic.Subheading: "hl-function",
    Token.Generic.Inserted: "hl-inserted",
    Token.Generic.Deleted: "hl-deleted",
    Token.Generic.Prompt: "hl-comment",
    Token.Generic.Output: "hl-comment",
}


# Finding and making one takes as long as reading a short block. A lexer keeps nothing of what it has read.
@cache
def _lexer(language: str) -> Lexer | None:
    if language not in LANGUAGES:
        return None
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


@cache
def _class_of(kind: _TokenType) -> str:
    while kind is not Token:
        if kind in _CLASSES:
            return _CLASSES[kind]
        kind = kind.parent
    return ""


def _runs(lexer: Lexer, code: str) -> list[tuple[str, str]]:
    """Class and text, with neighbours of one class joined."""
    runs: list[tuple[str, str]] = []
    for kind, text in lexer.get_tokens(code):
        name = _class_of(kind)
        if runs and runs[-1][0] == name:
            runs[-1] = (name, runs[-1][1] + text)
        else:
            runs.append((name, text))
    return runs


def _span(name: str, text: str) -> str:
    content = escape(text, quote=False)
    # Without quotes, which take four bytes in a frame, and code has a span for every second word.
    return f"<span class={name}>{content}</span>" if name else content


def highlight(code: str, language: str) -> str:
    """The code as HTML; plain where the language is unknown, the code long or the lexer lossy."""
    lexer = _lexer(language) if len(code) <= MAX_CHARACTERS else None
    if lexer is None:
        return escape(code, quote=False)
    runs = _runs(lexer, code)
    if "".join(text for _, text in runs) != code:
        return escape(code, quote=False)
    return "".join(_span(name, text) for name, text in runs)
