"""Personal instructions: saved in the settings, sent with the person's own messages, and read by nobody else."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from chat.models import (
    Conversation,
    Participant,
    PersonalInstructions,
    Project,
    Run,
    RunPersonalInstructions,
    User,
    Visibility,
)
from chat.runs.prompt import prepare
from tests.support.run_fixtures import MakeRun

pytestmark = pytest.mark.databases(slow=True)

ABOUT_ME = "I maintain the bridges of <b>Lyon</b>."


def instruct(user: User, use: str = "all") -> None:
    PersonalInstructions.objects.create(user=user, text=ABOUT_ME, use=use)


def share_with_team(run: Run) -> None:
    Conversation.objects.filter(pk=run.conversation_id).update(visibility=Visibility.TEAM)


def add_participant(run: Run, person: User) -> None:
    Participant.objects.create(conversation=run.conversation, person=person)


@pytest.mark.databases(only="sqlite")
def test_settings_save_and_delete_them(alice: User, as_alice: Client) -> None:
    address = reverse("instructions")

    as_alice.post(address, {"text": f"  {ABOUT_ME}\r\n", "use": "private"})

    assert list(PersonalInstructions.objects.values_list("user", "text", "use")) == [
        (alice.pk, ABOUT_ME, "private")
    ]
    assert "&lt;b&gt;Lyon" in as_alice.get(reverse("settings")).content.decode()
    refused = as_alice.post(address, {"text": "x" * 10_001, "use": "private"})
    assert (refused.status_code, PersonalInstructions.objects.get().text) == (422, ABOUT_ME)
    as_alice.post(address, {"text": "", "use": "all"})
    assert not PersonalInstructions.objects.exists()


@pytest.mark.parametrize(
    ("use", "audience", "is_sent"),
    [
        ("all", "private", True),
        ("all", "team", True),
        ("all", "participant", True),
        ("private", "private", True),
        ("private", "team", False),
        ("private", "participant", False),
        ("never", "private", False),
    ],
)
def test_use_decides_where_they_are_sent(
    make_run: MakeRun, alice: User, bob: User, use: str, audience: str, *, is_sent: bool
) -> None:
    instruct(alice, use)
    run = make_run()
    if audience == "team":
        share_with_team(run)
    elif audience == "participant":
        add_participant(run, bob)

    assert prepare(run.pk).prompt.system == (ABOUT_ME if is_sent else "")
    assert RunPersonalInstructions.objects.filter(run=run, text=ABOUT_ME).exists() == is_sent


def test_they_stand_between_the_project_and_the_conversation(
    make_run: MakeRun, alice: User
) -> None:
    instruct(alice)
    run = make_run(choice={"system_prompt": "Be brief."})
    project = Project.objects.create(
        team=run.conversation.team, name="Rivers", instructions="Answer in German."
    )
    Conversation.objects.filter(pk=run.conversation_id).update(project=project)

    assert prepare(run.pk).prompt.system == f"Answer in German.\n\n{ABOUT_ME}\n\nBe brief."


def test_message_of_somebody_else_is_sent_without_them(
    make_run: MakeRun, alice: User, bob: User
) -> None:
    instruct(alice)
    run = make_run()
    Run.objects.filter(pk=run.pk).update(requested_by=bob)

    assert prepare(run.pk).prompt.system == ""


@pytest.mark.databases(only="sqlite")
def test_run_details_show_the_text_to_their_author_only(
    make_run: MakeRun, alice: User, as_alice: Client, as_bob: Client
) -> None:
    instruct(alice)
    run = make_run()
    share_with_team(run)
    prepare(run.pk)
    address = f"{reverse('run_details', args=[run.public_id])}?tab=request"

    own, foreign = (client.get(address).content.decode() for client in (as_alice, as_bob))

    assert "&lt;b&gt;Lyon" in own
    assert "Personal instructions of" in foreign
    assert "Lyon" not in foreign
