"""Names of files for people, and which language a file's text is in. Nothing here decides access."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from chat.actions.files import picture_name
from chat.models import ArtifactVersion
from chat.rendering.markdown.highlight import LANGUAGES

_OTHER_NAMES = {"htm": "html", "mjs": "js", "cjs": "js", "h": "c", "text": "txt", "python3": "py"}
# Of languages whose name is not their suffix.
_SUFFIXES = {
    "python": "py",
    "javascript": "js",
    "typescript": "ts",
    "markdown": "md",
    "rust": "rs",
    "ruby": "rb",
    "shell": "sh",
    "bash": "sh",
    "golang": "go",
    "c++": "cpp",
    "c#": "cs",
    "csharp": "cs",
    "kotlin": "kt",
    "plain": "txt",
    "text": "txt",
}
_IS_SUFFIX = re.compile(r"[a-z0-9]{1,8}")


def language_of(name: str, media_type: str) -> str:
    """The highlighter's name for a language, a file's suffix or a media type; else nothing."""
    subtype = media_type.rpartition("/")[2].partition(";")[0].strip()
    words = (name, PurePosixPath(name).suffix[1:], subtype, subtype.removeprefix("x-"))
    for word in (word.lower() for word in words):
        language = _OTHER_NAMES.get(word, word)
        if language in LANGUAGES:
            return language
    return ""


def artifact_name(version: ArtifactVersion) -> str:
    """A file name that says what it is, and which version."""
    title = version.title or version.identifier or version.artifact.artifact_id
    title = picture_name(title.replace("/", " "))
    stem = re.sub(r"\s+", "-", title)[:80] or "artifact"
    own = PurePosixPath(stem).suffix[1:].lower()
    if _IS_SUFFIX.fullmatch(own):
        return f"{PurePosixPath(stem).stem}-v{version.number}.{own}"
    language = (version.language or version.content_type.rpartition("/")[2]).lower()
    language = language.removeprefix("x-")
    suffix = _SUFFIXES.get(language, language)
    return f"{stem}-v{version.number}.{suffix if _IS_SUFFIX.fullmatch(suffix) else 'txt'}"
