"""Static files under hashed names: browsers keep each for ever, and a page never mixes two versions.

`bring_up_to_date` builds ``STATIC_ROOT`` from the source when a server starts, if the source has
changed. Where nothing was built, as in tests inside one process, and with DEBUG, addresses are the
plain ones of the source tree.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.contrib.staticfiles.storage import staticfiles_storage
from django.core.exceptions import ImproperlyConfigured
from django.core.files.base import ContentFile
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.storage import CompressedManifestStaticFilesStorage

from chat.core import style_bundles

# Versions whose files stay: during an upgrade, processes of two versions may serve from the same
# folder, and the upgrade may be undone.
_VERSIONS_KEPT = 3
# A folder of a build that was killed, or a file of one that is not finished, is older than any build.
_ABANDONED_SECONDS = 3600
_UNFINISHED = ".building-"


def _sources() -> Iterator[tuple[str, Any]]:
    for finder in get_finders():
        for path, storage in finder.list([]):
            prefix = getattr(storage, "prefix", None)
            yield (f"{prefix}/{path}" if prefix else path), (storage, path)


@cache
def source_digest() -> str:
    """Identifies the static files of this version, as of the first call in this process.

    Reads all of them: 25 ms for 6 MB.
    """
    # The digest includes the modules that build the files.
    digest = hashlib.blake2b(digest_size=8)
    for module in (__file__, style_bundles.__file__):
        digest.update(Path(module).read_bytes())
    for name, (storage, path) in sorted(_sources(), key=lambda source: source[0]):
        digest.update(name.encode() + b"\0")
        digest.update(hashlib.blake2b(Path(storage.path(path)).read_bytes()).digest())
    return digest.hexdigest()


@cache
def _own_folders() -> set[str]:
    paths = (path for folder in settings.STATICFILES_DIRS for path in folder.iterdir())
    return {path.name for path in paths if path.is_dir() and path.name != "vendor"}


class HashedStorage(CompressedManifestStaticFilesStorage):
    """Hashed and compressed files. Imports between modules name the hashed files as well, so that
    no import map is needed, which the content security policy forbids inline.

    Each version has a manifest of its own. It is written last, so files that have one are complete.
    """

    support_js_module_import_aggregation = True
    # Each pass settles the names of one more level of imports.
    max_post_process_passes = 20

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # Scripts of others import nothing, and looking through them takes seconds.
        adjust = self._patterns.pop("*.js")
        self._patterns |= {f"{folder}/*.js": adjust for folder in _own_folders()}
        self._addresses: dict[tuple[str, bool], str] = {}

    @property
    def manifest_name(self) -> str:
        return f"manifest-{source_digest()}.json"

    def url_converter(self, name: str, *arguments: Any, **options: Any) -> Callable[..., str]:
        """Style sheets of others name files that they can do without: fonts for old browsers."""
        convert = super().url_converter(name, *arguments, **options)

        def converted(match: re.Match[str]) -> str:
            try:
                return str(convert(match))
            except ValueError:
                if name.split("/")[0] in _own_folders():
                    raise
                return str(match["matched"])

        return converted

    @property
    def is_built(self) -> bool:
        return bool(self.hashed_files) and not settings.WHITENOISE_AUTOREFRESH

    def stored_name(self, name: str) -> str:
        return str(super().stored_name(name)) if self.is_built else name

    def url(self, name: str | None, force: bool = False) -> str:
        """Caches each address: a page has forty, and making them would take a tenth of its rendering."""
        if name is None or force or settings.DEBUG:
            return str(super().url(name, force))
        key = (name, self.is_built)
        if key not in self._addresses:
            self._addresses[key] = str(super().url(name))
        return self._addresses[key]

    def forget_addresses(self) -> None:
        self._addresses.clear()


class StaticFiles(WhiteNoiseMiddleware):
    """Serves what was built: under hashed names for ever, and for a minute under plain names, which
    people and tests use."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        bring_up_to_date()
        super().__init__(*arguments, **options)

    def add_files(self, root: str, prefix: str | None = None) -> None:
        """Adds only this version's files of ``STATIC_ROOT``: another process may be writing to it."""
        if self.autorefresh:
            super().add_files(root, prefix)
            return
        for name, hashed_name in _storage().hashed_files.items():
            for each in (name, hashed_name):
                self.add_file_to_dictionary(f"{prefix}{each}", str(Path(root, hashed_name)))

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        path = request.path_info
        if path.startswith(self.static_prefix) and not (self.autorefresh or path in self.files):
            return self._of_another_version(request) or self.get_response(request)
        response: HttpResponseBase = super().__call__(request)
        return response

    def _of_another_version(self, request: HttpRequest) -> HttpResponseBase | None:
        """While servers are replaced, a page of one version may ask a server of another. It gets
        this version's file, which is not to be cached; the page is told to reload when it connects."""
        name = request.path_info.removeprefix(self.static_prefix)
        file = self.files.get(f"{self.static_prefix}{self.get_name_without_hash(name)}")
        if file is None:
            return None
        response: HttpResponseBase = self.serve(file, request)
        response["Cache-Control"] = "no-store"
        return response


# --- building ---------------------------------------------------------------------------------


def bring_up_to_date() -> None:
    """Builds the hashed files of this version, unless they are there. Several processes may do so
    at once, and may be killed: each builds in a folder of its own and moves whole files, whose names
    tell their content. Raises ``ImproperlyConfigured`` if they cannot be written.
    """
    if settings.WHITENOISE_AUTOREFRESH:
        return
    root = Path(settings.STATIC_ROOT)
    try:
        manifest = root / _storage().manifest_name
        if manifest.exists():
            _note_use(manifest)
        else:
            root.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=root) as folder:
                _build(Path(folder))
                _move(Path(folder), root, last=manifest.name)
            with contextlib.suppress(OSError):
                _remove_old_versions(root)
    except OSError as error:
        raise ImproperlyConfigured(
            f"STATIC_ROOT ({root}) doesn’t contain this version’s static files, and they can’t be "
            f"written there: {error.strerror}."
        ) from error
    # Reads the manifest again: the first read may have been before the build.
    storage = _storage()
    storage.hashed_files, storage.manifest_hash = storage.load_manifest()
    storage.forget_addresses()


def _storage() -> HashedStorage:
    """The storage of the settings, which answers ``{% static %}``."""
    return cast(HashedStorage, staticfiles_storage)


def is_built() -> bool:
    """Returns whether pages name built files, and not those of the source tree."""
    return _storage().is_built


def _note_use(manifest: Path) -> None:
    """Versions that were used last stay. In an image the folder cannot be written, and has one."""
    with contextlib.suppress(OSError):
        manifest.touch()


def _build(folder: Path) -> None:
    storage = HashedStorage(location=folder)
    paths = {}
    for name, (source, path) in _sources():
        if name not in paths:
            paths[name] = (source, path)
            with source.open(path) as file:
                storage.save(name, file)
    for bundle in style_bundles.bundles():
        name = style_bundles.file_of(bundle)
        storage.save(name, ContentFile(style_bundles.joined(bundle, storage).encode()))
        paths[name] = (storage, name)
    for name, _, outcome in storage.post_process(paths):
        if isinstance(outcome, Exception):
            raise ImproperlyConfigured(f"{name}: {outcome}") from outcome


def _move(folder: Path, root: Path, *, last: str) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    for path in sorted(files, key=lambda path: path.name == last):
        target = root / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        # Replaces an equal file, too: its new time keeps it from being removed as an old version's.
        os.replace(path, target)


def _remove_old_versions(root: Path) -> None:
    by_use = sorted(root.glob("manifest-*.json"), key=lambda path: path.stat().st_mtime)
    for manifest in by_use[:-_VERSIONS_KEPT]:
        manifest.unlink(missing_ok=True)
    kept: set[str] = set()
    for manifest in by_use[-_VERSIONS_KEPT:]:
        kept.update([manifest.name, *json.loads(manifest.read_bytes())["paths"].values()])
    oldest = time.time() - _ABANDONED_SECONDS
    # Unlike `Path.rglob` it bears that another process removes folders meanwhile.
    for folder, _, files in os.walk(root):
        for path in (Path(folder, file) for file in files):
            name = path.relative_to(root).as_posix()
            is_kept = name.removesuffix(".gz") in kept
            with contextlib.suppress(OSError):
                if not is_kept and path.stat().st_mtime < oldest:
                    path.unlink()
    for unfinished in root.glob(f"{_UNFINISHED}*"):
        if unfinished.stat().st_mtime < oldest:
            shutil.rmtree(unfinished, ignore_errors=True)
