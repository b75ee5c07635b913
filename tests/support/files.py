"""Files of conversations, with any bytes, in both places where they can be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from chat.models import FileContent, NewContent, StoredFile


def store_file(body: bytes = b"", **values: Any) -> StoredFile:
    with FileContent.objects.writing([NewContent(body=body)]) as [content]:
        FileContent.objects.keep(content)
    fields = {"size_bytes": len(body), **values}
    file: StoredFile = StoredFile.objects.create(content_id=content.sha256, **fields)
    return file


SCRIPT = {"X-Requested-With": "XMLHttpRequest"}


def add_to_draft(client: Client, place: str, *uploads: UploadedFile, **fields: str) -> HttpResponse:
    """What a page asks for when somebody picks files, or one of the project (``shared``)."""
    address = reverse("unsent_add", args=[place])
    return client.post(address, {"file": list(uploads), **fields}, headers=SCRIPT)


def ids_in(response: HttpResponse) -> list[str]:
    """The ids that a page posts for the files of these chips."""
    return re.findall(r'name="files" value="([0-9a-f-]{36})"', response.content.decode())


def use_directory(settings: Any, path: Path) -> None:
    """New files go to this directory from now on."""
    path.mkdir(exist_ok=True)
    backend = "chat.core.file_storage.DirectoryStorage"
    files = {"BACKEND": backend, "OPTIONS": {"location": str(path)}}
    settings.STORAGES = {**settings.STORAGES, "files": files}
    settings.NEW_FILES_IN = "storage"


def objects_in(path: Path) -> list[bytes]:
    return [each.read_bytes() for each in path.rglob("*") if each.is_file()]


@pytest.fixture
def file_folder(tmp_path: Path, settings: Any) -> Path:
    """The directory where new files are."""
    folder = tmp_path / "files"
    use_directory(settings, folder)
    return folder


@pytest.fixture(params=["database", "storage"])
def file_place(request: pytest.FixtureRequest) -> str:
    """Where new files are: each test that uses this runs for both places."""
    if request.param == "storage":
        request.getfixturevalue("file_folder")
    return str(request.param)
