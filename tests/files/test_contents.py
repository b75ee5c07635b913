"""The bytes of files: stored once, deleted with the last file, and counted."""

from __future__ import annotations

import hashlib
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from chat.conversations.actions.conversation import delete
from chat.core.errors import ActionRefused
from chat.files.actions import NewFile, attach, written
from chat.files.purge import erase, erase_unused
from chat.files.storage import stored_bytes
from chat.models import Conversation, FileContent, Message, NewContent, Role, StoredFile, User
from chat.organization.purge import erase_one
from tests.support.answers import png
from tests.support.databases import wait_for_a_lock
from tests.support.files import store_file

BODY = b"the same bytes"
DIGEST = hashlib.sha256(BODY).hexdigest()


def picture(*size: int) -> NewFile:
    return NewFile(name="a.png", media_type="image/png", body=png(*size))


def message(conversation: Conversation) -> Message:
    return Message.objects.create(conversation=conversation, role=Role.USER, text="Look")


def bodies() -> list[bytes]:
    return [content.read() for content in FileContent.objects.all()]


def attach_new(room: Conversation, user: User, *pictures: NewFile) -> None:
    with written(pictures) as attachments, transaction.atomic():
        attach(message(room), user, attachments)


@pytest.mark.usefixtures("file_place")
@pytest.mark.databases
def test_files_with_the_same_bytes_share_them(conversation: Conversation, alice: User) -> None:
    for _ in range(3):
        attach_new(conversation, alice, picture(4, 3), picture(5, 6))

    assert StoredFile.objects.count() == 6
    assert sorted(bodies()) == sorted([png(4, 3), png(5, 6)])
    assert {file.body for file in StoredFile.objects.all()} == {png(4, 3), png(5, 6)}


@pytest.mark.usefixtures("file_place")
@pytest.mark.databases
def test_bytes_are_deleted_with_the_last_file(
    conversation: Conversation, private_conversation: Conversation, alice: User, settings: Any
) -> None:
    settings.TRASH_DAYS = 0
    for room in (conversation, private_conversation):
        store_file(BODY, conversation=room)

    for room, left in ((conversation, [BODY]), (private_conversation, [])):
        delete(alice, room)
        Conversation.objects.update(deleted_at=None)
        Conversation.objects.filter(pk=room.pk).update(
            deleted_at=room.created_at - timedelta(days=1)
        )
        assert erase_one()
        erase_unused()
        assert bodies() == left


@pytest.mark.usefixtures("file_place")
@pytest.mark.databases
def test_bytes_of_a_file_are_never_deleted(conversation: Conversation) -> None:
    store_file(BODY, conversation=conversation)

    assert not erase(DIGEST)
    assert not erase_unused()
    assert bodies() == [BODY]


@pytest.mark.usefixtures("file_place")
@pytest.mark.databases(only="postgresql")
@pytest.mark.parametrize("has_content", [True, False])
def test_upload_during_the_deletion_of_the_same_bytes_keeps_them(
    has_content: bool, conversation: Conversation, transactional_db: None
) -> None:
    """Whichever comes first waits for the other."""
    if has_content:
        FileContent.objects.keep(NewContent(body=BODY))
    is_deleting, found = threading.Event(), []

    def erase_meanwhile() -> None:
        is_deleting.set()
        found.append(erase(DIGEST))
        connection.close()

    deleting = threading.Thread(target=erase_meanwhile)
    with transaction.atomic():
        store_file(BODY, conversation=conversation)
        deleting.start()
        assert is_deleting.wait(60)
        wait_for_a_lock() if has_content else deleting.join(60)
    deleting.join(60)

    assert found == [False]
    assert StoredFile.objects.get().body == BODY


@pytest.mark.usefixtures("file_place")
@pytest.mark.databases(only="postgresql")
def test_upload_after_an_unfinished_deletion_stores_the_bytes_again(
    conversation: Conversation, transactional_db: None
) -> None:
    FileContent.objects.keep(NewContent(body=BODY))

    def upload() -> None:
        with transaction.atomic():
            store_file(BODY, conversation=conversation)
        connection.close()

    uploading = threading.Thread(target=upload)
    with transaction.atomic():
        assert FileContent.objects.erase(DIGEST)
        uploading.start()
        wait_for_a_lock()
    uploading.join(60)

    assert StoredFile.objects.get().body == BODY


@pytest.mark.usefixtures("file_place")
@pytest.mark.databases
def test_person_stores_no_more_than_allowed(
    conversation: Conversation, alice: User, bob: User, settings: Any
) -> None:
    first, second = picture(4, 3), picture(5, 6)
    # It was there before there was a limit.
    store_file(first.body, conversation=conversation, created_by=alice)
    store_file(b"of an answer", conversation=conversation)
    settings.STORED_BYTES_PER_PERSON = stored_bytes(alice) + len(second.body) - 1
    assert stored_bytes(alice) == len(first.body) + len(b"of an answer")

    attach_new(conversation, alice, first)
    with pytest.raises(ActionRefused, match="no room"):
        attach_new(conversation, alice, first, second)
    attach_new(conversation, bob, second)

    # That somebody else has it makes no difference.
    with pytest.raises(ActionRefused, match="no room"):
        attach_new(conversation, alice, second)
