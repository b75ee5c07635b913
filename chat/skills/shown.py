"""Skills as pages show them: the fields, the instructions as HTML, and the files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from django.utils.safestring import SafeString

from chat.core.errors import ActionRefused
from chat.models import SkillVersion
from chat.rendering.components import safe
from chat.rendering.figures import size
from chat.rendering.markdown import render
from chat.skills.archive import FoundSkill
from chat.skills.manifest import Manifest, read_manifest

_SCRIPTS_FOLDER = "scripts/"
_SCRIPT_SUFFIXES = frozenset(
    (
        *(".py", ".sh", ".bash", ".zsh", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".ps1"),
        *(".bat", ".cmd", ".php", ".lua", ".r", ".exe", ".command"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFile:
    path: str
    size: str
    is_script: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSkill:
    """``html`` are the instructions. ``version`` is missing in a preview, and ``places`` there names the places where there
    is a skill with the name already."""

    manifest: Manifest
    html: SafeString
    files: Sequence[ShownFile]
    version: SkillVersion | None = None
    folder: str = ""
    places: Sequence[str] = ()
    is_chosen: bool = True

    @property
    def has_scripts(self) -> bool:
        return any(each.is_script for each in self.files)

    @property
    def is_in_other_folder(self) -> bool:
        """True if the folder doesn't have the name of the skill, as the exchange form wants."""
        return self.folder.rpartition("/")[2] not in ("", self.manifest.name)


def shown_version(version: SkillVersion) -> ShownSkill:
    try:
        manifest = read_manifest(version.text)
    except ActionRefused:
        # Checked when it was stored; the text is still shown if the rules have changed since.
        manifest = Manifest(
            name=version.skill.name, description=version.description, body=version.text
        )
    return ShownSkill(
        manifest=manifest,
        html=instructions(manifest.body),
        files=_files(version.files),
        version=version,
    )


def shown_import(found: FoundSkill, places: Sequence[str], *, is_chosen: bool) -> ShownSkill:
    files = [{"path": path, "size": len(body)} for path, body in found.files.items()]
    return ShownSkill(
        manifest=found.manifest,
        html=instructions(found.manifest.body),
        files=_files(files),
        folder=found.folder,
        places=places,
        is_chosen=is_chosen,
    )


def instructions(body: str) -> SafeString:
    return safe(render(body))


def _files(entries: Sequence[Mapping[str, Any]]) -> list[ShownFile]:
    return [
        ShownFile(
            path=each["path"], size=size(each["size"]), is_script=is_script(str(each["path"]))
        )
        for each in entries
    ]


def is_script(path: str) -> bool:
    """Returns whether other products might run the file."""
    return (
        path.startswith(_SCRIPTS_FOLDER) or PurePosixPath(path).suffix.lower() in _SCRIPT_SUFFIXES
    )


def text_of(version: SkillVersion) -> str:
    """A version as a text that people compare: SKILL.md, and which files it has."""
    files = "\n".join(f"{each['path']} {each['sha256'][:12]}" for each in version.files)
    return f"{version.text.rstrip()}\n\n{files}" if files else version.text
