"""Adds to the browser's site what the screens of attached files need: documents in each state, sent and in drafts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chat.models import Conversation, StoredFile

# Names, pages, and characters of a page.
SURVEY = ("Survey of the dam 2026, with all appendices.pdf", 48, 2400)
TABLE = ("levels.csv", 1, 5200)
SLIDES = ("Kick-off.pptx", 14, 300)
BROKEN = ("minutes-scan.pdf", 0, 0)
WAITING = ("tender.docx", None, 0)


def attach_files(links: dict[str, str], fake_url: str) -> None:
    """A conversation whose message has files of all kinds, with a draft that has some, too, and a draft that is
    too long for its model."""
    from pathlib import Path

    from chat.files import unsent
    from chat.files.actions import new_file
    from chat.models import (
        Attachment,
        Conversation,
        FileUse,
        Message,
        Role,
        Team,
        Upstream,
        User,
    )

    alice, river = User.objects.get(name="Alice"), Team.objects.get(name="River")
    picture = Path(__file__).parents[2] / "chat/demo/data/media/chart.png"
    server = Upstream.objects.create(
        name="Workstation",
        dialect="openai_chat",
        base_url=f"{fake_url}/v1",
        model_list=[{"id": "small", "label": "Small", "detail": {"context_length": 8192}}],
    )

    def begin(title: str) -> Conversation:
        room = Conversation.objects.create(
            team=river, owner=alice, title=title, upstream=server, model="small"
        )
        text = f"{title}: what do the attached files say?"
        message = Message.objects.create(conversation=room, role=Role.USER, author=alice, text=text)
        sent = [document(SURVEY), document(TABLE), document(BROKEN)]
        sent.append(unsent.upload(alice, "sent", new_file("chart.png", picture.read_bytes())).file)
        for position, file in enumerate(sent):
            file.conversation = room
            file.save()
            Attachment.objects.create(
                message=message,
                file=file,
                position=position,
                pages="1-3, 7" if position == 0 else "",
                use=FileUse.TOOLS if position == 1 else FileUse.CONTENT,
            )
        return room

    room = begin("The survey of the dam")
    place = room.public_id.hex
    for kind in (SLIDES, BROKEN, WAITING):
        document(kind, place)
    unsent.upload(alice, place, new_file("chart.png", picture.read_bytes()))
    links["files-draft"] = f"/c/{room.public_id}/"
    links["files-deleted"] = f"/c/{delete_files(begin('The old survey')).public_id}/"
    room = begin("Too much to read")
    document(SURVEY, room.public_id.hex)
    links["files-too-long"] = f"/c/{room.public_id}/"


def delete_files(room: Conversation) -> Conversation:
    """Deletes the document and the picture of its message."""
    from chat.files.deleting import delete_file
    from chat.models import Attachment

    sent = Attachment.objects.filter(message__conversation=room, position__in=(0, 3))
    for each in sent.select_related("file"):
        delete_file(room.owner, each.file)
    return room


def document(kind: tuple[str, int | None, int], place: str = "sent") -> StoredFile:
    """A file of Alice's draft with so many pages, as if it had been read."""
    from django.utils import timezone

    from chat.documents.kinds import media_type_of
    from chat.files import unsent
    from chat.files.actions import NewFile
    from chat.models import Document, DocumentPage, Job, UnsentFile, User

    name, pages, length = kind
    body = f"{name} {pages}".encode()
    new = NewFile(name=name, media_type=media_type_of(name, body), body=body)
    file = unsent.upload(User.objects.get(name="Alice"), place, new).file
    found = Document.objects.get(sha256=file.sha256)
    if place == "sent":
        UnsentFile.objects.filter(file=file).delete()
    # No runner looks at it again.
    Job.objects.filter(document=found).delete()
    if pages is None or found.read_at is not None:
        return file
    line = "The level at the lower gauge rose by two centimetres during the night.\n"
    DocumentPage.objects.bulk_create(
        DocumentPage(
            document=found, number=number, text=(line * (length // len(line) + 1))[:length]
        )
        for number in range(1, pages + 1)
    )
    found.read_at, found.pages_count = timezone.now(), pages
    found.characters = pages * length
    found.refusal = "" if pages else "This PDF has only pictures of its pages, without text."
    found.save()
    return file
