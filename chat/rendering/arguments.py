"""The complete arguments of a tool call: JSON, but code as it is written."""

from typing import Any

from django.utils.safestring import SafeString

from chat.rendering.anatomy import (
    SHOWN_CHARACTERS,
    excerpt,
    excerpt_of_json,
    fill,
    name_of,
    safe,
)
from chat.rendering.highlight import LANGUAGES

# So many members at most stand by themselves; the others stay in the JSON.
TEXTS = 8
# What a member of this name usually holds, where it is not named after its language.
_USUAL_LANGUAGES = {"command": "bash", "cmd": "bash", "script": "bash", "query": "sql"}
# A tool whose name says so takes code of this language.
_LANGUAGES_OF_TOOLS = ("python", "javascript", "bash", "sql")


def arguments_of(arguments: dict[str, Any], tool: str) -> SafeString:
    """Members that are text of several lines stand below the rest, each by itself: a program with
    its line ends as signs, in one long line, is read by nobody."""
    texts: dict[str, str] = {}
    left = SHOWN_CHARACTERS
    for name, value in arguments.items():
        if len(texts) < TEXTS and left > 0 and isinstance(value, str) and "\n" in value.strip():
            texts[name] = value
            left -= len(value)
    rest = {name: value for name, value in arguments.items() if name not in texts}
    shown = [excerpt_of_json(rest)] if rest or not texts else []
    for name, text in texts.items():
        block = excerpt(text.strip("\n"), _language(name.lower(), tool.lower()))
        shown.append(fill("argument", name=name_of(name), block=block))
    return safe("".join(shown))


def _language(name: str, tool: str) -> str:
    if name in LANGUAGES:
        return name
    if tool == "code_interpreter":
        return "python"
    if name == "code":
        return next((language for language in _LANGUAGES_OF_TOOLS if language in tool), "")
    return _USUAL_LANGUAGES.get(name, "")
