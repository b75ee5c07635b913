"""Bytes of files in a storage beside the database: no step loses them, and none stay for ever."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management.base import CommandError
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat.core import file_storage
from chat.core.errors import FilesUnavailable
from chat.files.purge import delete_due_objects, erase_unused
from chat.models import (
    Attachment,
    Conversation,
    FileContent,
    NewContent,
    StoredFile,
    UnreferencedObject,
)
from chat.rendering.messages import error_notice
from chat.runs.prompt import NotReady, StorageNeeded, prepare
from project import startup
from tests.support.answers import png
from tests.support.files import objects_in, store_file
from tests.support.run_fixtures import MakeRun

BODY = b"the same bytes"


def expire_grace() -> None:
    UnreferencedObject.objects.update(due_at=timezone.now() - timedelta(seconds=1))


class Steps:
    """One upload, or more, step by step, with whatever comes between."""

    def __init__(self, room: Conversation) -> None:
        self.room = room
        self.content = NewContent(body=BODY)

    def write(self) -> None:
        """A process that is killed afterwards has done no more than this."""
        (self.content,) = FileContent.objects.write([NewContent(body=BODY)])

    def keep(self) -> None:
        StoredFile.objects.store(
            self.room.pk, name="a.txt", media_type="text/plain", content=self.content
        )

    def upload(self) -> None:
        new = NewContent(body=BODY)
        with FileContent.objects.writing([new]) as [self.content], transaction.atomic():
            self.keep()

    def upload_in_vain(self) -> None:
        new = NewContent(body=BODY)
        with FileContent.objects.writing([new]) as [self.content], transaction.atomic():
            self.keep()
            transaction.set_rollback(True)

    def delete(self) -> None:
        StoredFile.objects.all().delete()
        erase_unused()

    def purge(self) -> None:
        while delete_due_objects():
            pass

    def purge_after_grace(self) -> None:
        expire_grace()
        self.purge()

    def kill_during_deletion(self) -> None:
        expire_grace()
        for each in UnreferencedObject.objects.all():
            UnreferencedObject.objects.update(is_deleting=True)
            file_storage.delete(each.name)


# Steps; then whether a file is left, how many objects, and how many rows of objects without a content.
ORDERS: dict[str, tuple[int, int, int]] = {
    "upload": (1, 1, 0),
    "upload upload": (2, 1, 0),
    "upload_in_vain": (0, 0, 0),
    "upload upload_in_vain": (1, 1, 0),
    "write": (0, 1, 1),
    "write purge": (0, 1, 1),
    "write purge_after_grace": (0, 0, 0),
    "write keep purge_after_grace": (1, 1, 0),
    "write purge_after_grace keep": (1, 0, 0),
    "write kill_during_deletion": (0, 0, 1),
    "write kill_during_deletion keep": (1, 0, 1),
    "write kill_during_deletion keep purge_after_grace": (1, 0, 0),
    "write upload keep": (2, 2, 1),
    "write upload keep purge_after_grace": (2, 1, 0),
    "upload delete": (0, 1, 1),
    "upload delete purge": (0, 1, 1),
    "upload delete purge_after_grace": (0, 0, 0),
    "upload delete upload": (1, 2, 1),
    "upload delete upload purge_after_grace": (1, 1, 0),
    "upload delete keep": (1, 1, 0),
    "upload delete purge_after_grace keep": (1, 0, 0),
    "upload delete kill_during_deletion purge_after_grace": (0, 0, 0),
}


@pytest.mark.databases(slow=True)
@pytest.mark.parametrize("order", ORDERS)
def test_every_file_has_its_bytes_and_the_rest_goes(
    order: str, conversation: Conversation, file_folder: Path
) -> None:
    steps = Steps(conversation)

    for step in order.split():
        getattr(steps, step)()

    files = list(StoredFile.objects.all())
    assert [file.body for file in files] == [BODY] * len(files)
    found = len(files), len(objects_in(file_folder)), UnreferencedObject.objects.count()
    assert found == ORDERS[order]


@pytest.mark.django_db
def test_files_are_read_from_where_they_are(
    conversation: Conversation, file_folder: Path, settings: Any
) -> None:
    outside = store_file(b"in the storage", conversation=conversation)
    settings.NEW_FILES_IN = "database"
    inside = store_file(b"in the database", conversation=conversation)

    assert (outside.body, inside.body) == (b"in the storage", b"in the database")
    assert objects_in(file_folder) == [b"in the storage"]


@pytest.mark.django_db(transaction=True)
def test_no_transaction_waits_for_the_storage(
    conversation: Conversation, file_folder: Path
) -> None:
    with transaction.atomic():
        file = store_file(BODY, conversation=conversation)

    assert not objects_in(file_folder)
    assert file.body == BODY


@pytest.mark.django_db(transaction=True)
def test_objects_are_written_and_indexed_outside_of_transactions(
    conversation: Conversation, file_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    for name in ("write", "read"):
        monkeypatch.setattr(file_storage, name, noted(getattr(file_storage, name), seen))

    Steps(conversation).upload()

    assert seen == [False]


def noted(function: Callable[..., Any], seen: list[bool]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        seen.append(connection.in_atomic_block)
        return function(*args)

    return call


def test_nobody_else_can_read_a_directory(conversation: Conversation, file_folder: Path) -> None:
    store_file(BODY, conversation=conversation)

    (path,) = (each for each in file_folder.rglob("*") if each.is_file())
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent)]
    assert modes == [0o600, 0o700]


# --- a storage that fails ------------------------------------------------------------------------


def remove_object(folder: Path) -> None:
    next(each for each in folder.rglob("*") if each.is_file()).unlink()


def cut_object(folder: Path) -> None:
    os.truncate(next(each for each in folder.rglob("*") if each.is_file()), 3)


def remove_folder(folder: Path) -> None:
    folder.rename(folder.with_name("unmounted"))


@pytest.mark.django_db
@pytest.mark.parametrize("fault", [remove_object, cut_object, remove_folder])
def test_file_that_cannot_be_read_says_so(
    fault: Callable[[Path], None],
    alice_client: Client,
    conversation: Conversation,
    file_folder: Path,
) -> None:
    file = store_file(png(), name="a.png", media_type="image/png", conversation=conversation)
    address = reverse("file", args=[file.public_id])
    assert alice_client.get(address).content == png()

    fault(file_folder)

    answer = alice_client.get(address)
    assert answer.status_code == 503
    assert "A file can’t be read at the moment" in answer.content.decode()
    assert StoredFile.objects.get() == file


@pytest.mark.django_db(transaction=True)
def test_process_refuses_to_start_without_the_storage_of_its_files(
    conversation: Conversation, file_folder: Path, settings: Any
) -> None:
    store_file(BODY, conversation=conversation)
    startup.refuse_wrong_file_storage()

    without = {name: each for name, each in settings.STORAGES.items() if name != "files"}
    for files, reason in (
        ({}, "1 file is in a storage that isn’t configured"),
        ({"files": {"BACKEND": "storages.not.Here"}}, "FILES_BACKEND can’t be used"),
    ):
        settings.STORAGES = {**without, **files}
        with pytest.raises(CommandError, match=reason):
            startup.refuse_wrong_file_storage()


@pytest.mark.django_db
def test_missing_directory_is_not_made(conversation: Conversation, file_folder: Path) -> None:
    remove_folder(file_folder)

    with pytest.raises(FilesUnavailable, match="can’t be stored"):
        store_file(BODY, conversation=conversation)

    assert not file_folder.exists()
    assert not FileContent.objects.exists()


@pytest.mark.django_db
def test_what_nobody_waits_for_stays_in_the_database(
    conversation: Conversation, file_folder: Path
) -> None:
    remove_folder(file_folder)
    steps = Steps(conversation)

    steps.write()
    steps.keep()

    assert StoredFile.objects.get().body == BODY


@pytest.mark.django_db
def test_failed_deletion_is_tried_again(conversation: Conversation, file_folder: Path) -> None:
    steps = Steps(conversation)
    steps.upload()
    steps.delete()
    expire_grace()
    elsewhere = file_folder.rename(file_folder.with_name("unmounted"))

    assert not delete_due_objects()

    elsewhere.rename(file_folder)
    assert objects_in(file_folder) == [BODY]
    steps.purge_after_grace()
    assert objects_in(file_folder) == []


@pytest.mark.django_db
def test_run_with_a_file_that_cannot_be_read_fails(make_run: MakeRun, file_folder: Path) -> None:
    run = make_run("Look")
    file = store_file(png(), media_type="image/png", conversation=run.conversation)
    Attachment.objects.create(message=run.message.parent, file=file)
    with pytest.raises(StorageNeeded):
        prepare(run.pk)
    assert prepare(run.pk, may_read_storage=True).prompt.turns

    remove_object(file_folder)

    with pytest.raises(NotReady) as refused:
        prepare(run.pk, may_read_storage=True)
    assert error_notice(refused.value.info).title == "An attached file can’t be read at the moment"
