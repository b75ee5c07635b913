"""Letters that hide or turn others are shown for what they are, also in titles of files."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from chat.events import ArtifactUpdate
from chat.models import Artifact, Conversation, StoredFile, User
from tests.files.conftest import Answer

pytestmark = pytest.mark.django_db

TURNED = "invoice\u202egpj.exe"


@pytest.fixture
def alice_client(signed_in: Callable[[User], Client], alice: User) -> Client:
    return signed_in(alice)


def test_an_artifacts_title_and_language_turn_nothing_round(
    alice_client: Client, answer: Answer
) -> None:
    answer(
        ArtifactUpdate(
            op="created", artifact_id="a", title=TURNED, language="py\u202e", content="x = 1"
        )
    )
    page = alice_client.get(f"/a/{Artifact.objects.get().public_id}/1/").content.decode()

    assert "invoice" in page
    assert "\u202e" not in page


def test_a_files_name_and_type_turn_nothing_round(
    alice_client: Client, conversation: Conversation
) -> None:
    file = StoredFile.objects.create(
        conversation=conversation, name=TURNED, media_type="text/\u202epl", body=b"x = 1"
    )
    page = alice_client.get(f"/f/{file.public_id}/source/").content.decode()

    assert "invoice" in page
    assert "\u202e" not in page
