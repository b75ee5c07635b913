"""The files of the demo's mockups: a board for a team, in two versions."""

import re
import secrets
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from chat.demo.requests import DemoState, JsonObject, remember
from chat.demo.scenes import DATA

PATH = "/xerotier/proj_demo/team/v1/mockups/"
_BUNDLE_ID = re.compile(r"bndl_[0-9a-f]{12}\b")
_MEDIA_TYPES = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "png": "image/png",
    "md": "text/markdown",
}


def known_bundle(answers: Sequence[str]) -> str | None:
    known = _BUNDLE_ID.findall("\n".join(answers))
    return known[-1] if known else None


def new_bundle() -> str:
    return f"bndl_{secrets.token_hex(6)}"


def files_of(version: int) -> Mapping[str, tuple[str, bytes]]:
    """Path to media type and bytes. Every version from 2 on is the finished board."""
    folder = DATA / "mockup" / str(min(version, 2))
    return {
        path.relative_to(folder).as_posix(): (
            _MEDIA_TYPES[path.suffix[1:]],
            path.read_bytes().replace(b"{{version}}", str(version).encode()),
        )
        for path in sorted(folder.rglob("*"), reverse=True)
        if path.is_file()
    }


def next_version(bundle: str, state: DemoState) -> JsonObject:
    """The data of an event about the next version, whose files can be fetched from now on: all
    files at first, later the changed ones."""
    version = (state.bundles.get(bundle) or 0) + 1
    remember(state.bundles, bundle, version)
    files = files_of(version)
    if version == 1:
        listed = [
            {"path": path, "contentType": media_type, "size": len(data)}
            for path, (media_type, data) in files.items()
        ]
        return {"files": listed}
    before = files_of(version - 1)
    return {
        "changed": [path for path, file in files.items() if before.get(path) != file],
        "deleted": [path for path in before if path not in files],
    }


def file_at(path: str, state: DemoState) -> tuple[str, bytes] | None:
    """Media type and bytes, in the version that its bundle has reached."""
    bundle, _, name = unquote(path.removeprefix(PATH)).partition("/")
    version = state.bundles.get(bundle)
    return files_of(version).get(name) if version else None
