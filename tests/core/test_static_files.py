"""Static files as browsers get them: hashed, compressed, complete or not there at all."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import staticfiles_storage
from django.core.exceptions import ImproperlyConfigured
from django.http import Http404
from django.http.response import HttpResponseBase
from django.templatetags.static import static
from django.test import RequestFactory

from chat.core import static_files
from chat.web.tags import style_sheets
from tests.support.processes.site import ROOT, environment

SOURCE = {
    "pages/one.js": 'import { word } from "../base/word.js";\ndocument.title = word;\n' * 40,
    "base/word.js": 'export const word = "first";\n',
    "base/one.css": "body { background: url(../one.svg) }\n",
    "one.svg": "<svg/>",
    "vendor/other.css": "@font-face { src: url(missing.woff) }\n",
    "bundles.toml": 'all = ["base/one.css", "a/deep/two.css"]\n',
    "a/deep/two.css": """.two { background: url('three.svg'), url(#part), url("data:,x"), url(/y) }\n""",
    "a/deep/three.svg": "<svg/>",
}


@pytest.fixture
def source(tmp_path: Path, settings: Any) -> Iterator[Path]:
    """A small source tree, built into a folder beside it."""
    folder = tmp_path / "source"
    for name, text in SOURCE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    settings.STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    settings.STATICFILES_DIRS = [folder]
    settings.STATIC_ROOT = tmp_path / "built"
    settings.WHITENOISE_AUTOREFRESH = settings.WHITENOISE_USE_FINDERS = False
    forget()
    yield folder
    forget()


def forget() -> None:
    """As in a new process."""
    for cached in (
        finders.get_finder,
        static_files.source_digest,
        static_files._own_folders,
    ):
        cached.cache_clear()
    staticfiles_storage._wrapped = None
    staticfiles_storage._setup()
    staticfiles_storage._wrapped.hashed_files = {}


@pytest.fixture
def bodies() -> list[bytes]:
    """What was served."""
    return []


@pytest.fixture
def get(source: Path, bodies: list[bytes], db: None) -> Callable[..., HttpResponseBase]:
    """With a database, because the end of a response looks at the connection that an earlier test
    may have left open."""

    def get(address: str, **headers: str) -> HttpResponseBase:
        def nothing(request: object) -> HttpResponseBase:
            raise Http404

        served = static_files.StaticFiles(nothing)(RequestFactory().get(address, headers=headers))
        bodies.append(b"".join(served))
        served.close()
        return served

    return get


def built(source: Path) -> set[str]:
    root = source.parent / "built"
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def test_imports_and_links_name_hashed_files(source: Path) -> None:
    static_files.bring_up_to_date()

    root = source.parent / "built"
    script = (root / static("pages/one.js").removeprefix("/static/")).read_text()
    style = (root / static("base/one.css").removeprefix("/static/")).read_text()
    assert f'"../{static("base/word.js").removeprefix("/static/")}"' in script
    assert static("one.svg").rpartition("/")[2] in style
    assert static("base/word.js") != "/static/base/word.js"


def test_bundle_has_its_sheets_in_order_with_their_addresses(source: Path) -> None:
    static_files.bring_up_to_date()

    (address,) = re.findall('href="([^"]+)"', style_sheets("all"))
    path = source.parent / "built" / address.removeprefix("/static/")
    text = path.read_text()
    named = re.findall(r"""url\(["']?([^"')]+)""", text)
    assert text.index("body") < text.index(".two")
    assert named[2:] == ["#part", "data:,x", "/y"]
    assert [(path.parent / each).resolve().is_file() for each in named[:2]] == [True, True]
    assert named[1] == f"../{static('a/deep/three.svg').removeprefix('/static/')}"
    assert address == static("bundles/all.css") != "/static/bundles/all.css"


def test_changed_sheet_renames_its_bundle(source: Path) -> None:
    static_files.bring_up_to_date()
    before = style_sheets("all")
    (source / "base/one.css").write_text("body { color: red }\n")
    forget()

    static_files.bring_up_to_date()

    assert style_sheets("all") != before


def test_without_a_build_pages_link_single_sheets(source: Path, settings: Any) -> None:
    settings.WHITENOISE_AUTOREFRESH = True
    static_files.bring_up_to_date()

    linked = re.findall('href="([^"]+)"', style_sheets("all"))

    assert linked == ["/static/base/one.css", "/static/a/deep/two.css"]


def test_address_is_put_together_once(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    static_files.bring_up_to_date()
    storage = static_files.CompressedManifestStaticFilesStorage
    put_together, names = storage.url, []

    def noted(self: Any, name: str, force: bool = False) -> str:
        names.append(name)
        return str(put_together(self, name, force))

    monkeypatch.setattr(storage, "url", noted)

    assert len({static("one.svg") for _ in range(3)}) == 1
    assert names == ["one.svg"]


def test_hashed_file_is_kept_for_ever(get: Callable[..., Any]) -> None:
    get("/static/one.svg")

    response = get(static("pages/one.js"), accept_encoding="gzip")

    assert "immutable" in response["Cache-Control"]
    assert response["Content-Encoding"] == "gzip"
    assert response["Content-Type"].startswith("text/javascript")


def test_plain_name_is_not_kept(get: Callable[..., Any], bodies: list[bytes]) -> None:
    response = get("/static/base/word.js")

    assert bodies[-1] == SOURCE["base/word.js"].encode()
    assert response["Cache-Control"] == "max-age=60, public"


def test_page_of_another_version_gets_this_one(
    get: Callable[..., Any], bodies: list[bytes]
) -> None:
    response = get("/static/base/word.0123456789ab.js")

    assert bodies[-1] == SOURCE["base/word.js"].encode()
    assert response["Cache-Control"] == "no-store"
    with pytest.raises(Http404):
        get("/static/base/nothing.0123456789ab.js")


def test_unchanged_source_is_not_built_again(source: Path, monkeypatch: Any) -> None:
    static_files.bring_up_to_date()
    monkeypatch.setattr(static_files, "_build", lambda folder: pytest.fail("built again"))
    forget()

    static_files.bring_up_to_date()

    assert static("base/word.js") != "/static/base/word.js"


def test_changed_source_leaves_files_of_the_version_before(source: Path) -> None:
    static_files.bring_up_to_date()
    before = static("pages/one.js")
    (source / "base/word.js").write_text('export const word = "second";\n')
    forget()

    static_files.bring_up_to_date()

    # What imports the changed module has another name as well.
    assert static("pages/one.js") != before
    assert before.removeprefix("/static/") in built(source)


def test_old_versions_are_removed(source: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(static_files, "_ABANDONED_SECONDS", -60)
    names = []
    for number in range(5):
        (source / "base/word.js").write_text(f"export const word = {number};\n")
        forget()
        static_files.bring_up_to_date()
        names.append(static("base/word.js").removeprefix("/static/"))
        for path in (source.parent / "built").glob("manifest-*"):
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 10))

    assert {name in built(source) for name in names[-3:]} == {True}
    assert {name in built(source) for name in names[:2]} == {False}


def test_killed_build_leaves_no_manifest(source: Path, monkeypatch: Any) -> None:
    replace, moved = os.replace, []

    def kill(path: Path, target: Path) -> None:
        moved.append(target)
        if len(moved) == 3:
            raise KeyboardInterrupt
        replace(path, target)

    monkeypatch.setattr(static_files.os, "replace", kill)
    with pytest.raises(KeyboardInterrupt):
        static_files.bring_up_to_date()
    assert not [name for name in built(source) if name.startswith("manifest-")]
    monkeypatch.undo()
    forget()

    static_files.bring_up_to_date()

    manifest = next((source.parent / "built").glob("manifest-*"))
    assert set(json.loads(manifest.read_text())["paths"].values()) <= built(source)


def test_missing_import_of_ours_is_refused(source: Path) -> None:
    (source / "base/word.js").write_text('import "./missing.js";\n')

    with pytest.raises(ImproperlyConfigured, match=r"missing\.js"):
        static_files.bring_up_to_date()


def test_folder_that_cannot_be_written_is_named(source: Path, settings: Any) -> None:
    settings.STATIC_ROOT = Path("/proc/tributary")

    with pytest.raises(ImproperlyConfigured, match="STATIC_ROOT"):
        static_files.bring_up_to_date()


# Two processes that build all of our files.
@pytest.mark.slow
@pytest.mark.process
def test_processes_that_start_together_build_the_same(tmp_path: Path) -> None:
    code = "from chat.core.static_files import bring_up_to_date; bring_up_to_date()"
    begin = f"import django; django.setup(); {code}"
    own = {"STATIC_ROOT": str(tmp_path / "built"), "DJANGO_SETTINGS_MODULE": "project.settings"}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", begin], cwd=ROOT, env={**environment(tmp_path), **own}
        )
        for _ in range(2)
    ]

    assert [each.wait(120) for each in started] == [0, 0]
    (manifest,) = (tmp_path / "built").glob("manifest-*.json")
    names = set(json.loads(manifest.read_text())["paths"].values())
    assert all((tmp_path / "built" / name).is_file() for name in names)
    assert not list((tmp_path / "built").glob(".building-*"))
