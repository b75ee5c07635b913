"""Invitations of several people: addresses at once, links for a number of people, sending and renewing."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from urllib.parse import urlsplit

import pytest
from django.core import mail
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat.accounts.actions import invitations, people
from chat.core.errors import ActionRefused
from chat.models import AuditEvent, Invitation, InvitationUse, Membership, Team, User
from tests.accounts.conftest import NEW_PASSWORD, MakeInvitation, SignIn, run_at_once
from tests.accounts.test_invitations import NEWCOMER, post_invite
from tests.conftest import MakeUser
from tests.support.stored import everything_stored


@pytest.fixture
def _mail(settings: object) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    settings.SITE_URL = "https://river.example.org"
    settings.ALLOWED_HOSTS = ["*"]
    cache.clear()


def newcomer(number: int) -> dict[str, str]:
    return {
        "name": f"Nora {number}",
        "email": f"nora{number}@example.org",
        "password": NEW_PASSWORD,
    }


def link_in(message: object) -> str:
    return next(line for line in message.body.splitlines() if "/invite/" in line)


# --- by mail --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_mail")
def test_each_address_gets_a_mail_with_a_link_of_its_own(
    signed_in: SignIn, alice: User, team: Team
) -> None:
    text = "Ina <Ina@Example.org>, jo@example.org;\nina@example.org\n\nkim@example.org"

    page = signed_in(alice).post(
        reverse("invite", args=[team.public_id]),
        {"role": "viewer", "emails": text, "days": 3},
        headers={"host": "evil.test"},
    )

    assert page.status_code == 200
    sent = {message.to[0]: link_in(message) for message in mail.outbox}
    assert sorted(sent) == ["ina@example.org", "jo@example.org", "kim@example.org"]
    assert len(set(sent.values())) == 3
    assert all(link.startswith("https://river.example.org/invite/") for link in sent.values())
    assert not any("evil.test" in message.message().as_string() for message in mail.outbox)
    # Whoever got the mail has the link; the page doesn't repeat it.
    assert not any(link in page.content.decode() for link in sent.values())
    assert mail.outbox[0].subject == "Alice invited you to River on Tributary"
    Client().post(urlsplit(sent["jo@example.org"]).path, {**NEWCOMER, "email": "x@example.org"})
    assert Membership.objects.get(user__email="jo@example.org").role == "viewer"


@pytest.mark.usefixtures("_mail")
@pytest.mark.parametrize(
    ("emails", "words"),
    [
        ("ok@example.org, nobody, other@@x", "Not an email address: nobody, other@@x"),
        ("ok@example.org, alice@example.org", "Already on the team: alice@example.org"),
        ("ok@example.org, old@example.org", "Already invited: old@example.org"),
        (", ".join(f"p{number}@example.org" for number in range(31)), "up to 30 people"),
    ],
)
def test_refusals_name_the_addresses_and_invite_nobody(
    signed_in: SignIn,
    alice: User,
    team: Team,
    make_invitation: MakeInvitation,
    emails: str,
    words: str,
) -> None:
    make_invitation(email="old@example.org")

    answer = post_invite(signed_in(alice), team, emails=emails)

    assert answer.status_code in (409, 422)
    assert words in answer.content.decode()
    assert Invitation.objects.count() == 1
    assert mail.outbox == []


@pytest.mark.usefixtures("_mail")
def test_name_of_a_team_adds_no_header(signed_in: SignIn, alice: User, team: Team) -> None:
    Team.objects.filter(pk=team.pk).update(name="River\r\nBcc: all@example.org")

    post_invite(signed_in(alice), team, emails="jo@example.org")

    assert mail.outbox[0].subject == "Alice invited you to River Bcc: all@example.org on Tributary"
    assert mail.outbox[0].message()["Bcc"] is None


def test_failing_mail_server_leaves_links_to_copy(
    signed_in: SignIn,
    alice: User,
    team: Team,
    settings: object,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings.EMAIL_BACKEND = "project.mail.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1

    page = post_invite(
        signed_in(alice), team, emails="jo@example.org kim@example.org".replace(" ", ",")
    )

    assert "couldn’t be sent" in page.content.decode()
    assert page.content.decode().count("/invite/") == 2
    assert Invitation.objects.filter(sent_at=None).count() == 2
    assert "mail.failed message=invitation error=ConnectionRefusedError" in caplog.text
    assert "jo@example.org" not in caplog.text


def test_without_mail_there_is_a_link_to_copy_for_each(
    signed_in: SignIn, alice: User, team: Team
) -> None:
    page = post_invite(signed_in(alice), team, emails="jo@example.org,kim@example.org")

    assert page.content.decode().count("/invite/") == 2
    assert mail.outbox == []


@pytest.mark.usefixtures("_mail")
def test_one_person_cannot_mail_strangers_in_bulk(
    alice: User, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(invitations, "MAILS_PER_MINUTE", 3)
    send = partial(invitations.invite_addresses, alice, team, role="member", days=1)
    send(["a@example.org", "b@example.org"])

    with pytest.raises(ActionRefused):
        send(["c@example.org", "d@example.org"])

    assert len(mail.outbox) == 2


# --- for several people ---------------------------------------------------------------------------


def test_link_for_three_admits_three(
    make_invitation: MakeInvitation, signed_in: SignIn, alice: User, team: Team
) -> None:
    _, path = make_invitation(people=3)

    answers = [Client().post(path, newcomer(number)).status_code for number in range(4)]
    page = signed_in(alice).get(reverse("invitations", args=[team.public_id])).content.decode()

    assert answers == [302, 302, 302, 404]
    assert "3 of 3" in page
    assert all(f"Nora {number}" in page for number in range(3))


def test_addresses_and_a_number_of_people_do_not_go_together(
    signed_in: SignIn, alice: User, team: Team
) -> None:
    answer = post_invite(signed_in(alice), team, emails="jo@example.org", people=2)

    assert answer.status_code == 422


@pytest.mark.databases
@pytest.mark.usefixtures("transactional_db")
def test_fifty_at_once_admit_exactly_as_many_as_the_link_is_for(
    make_invitation: MakeInvitation, make_user: MakeUser, team: Team
) -> None:
    invitation, _ = make_invitation(people=7)
    racers = [make_user(f"Racer {number}") for number in range(50)]

    outcomes = run_at_once(*(partial(invitations.join, invitation, each) for each in racers))

    assert outcomes.count("done") == 7
    assert outcomes.count("refused") == 43
    assert Membership.objects.filter(team=team, user__in=racers).count() == 7
    assert InvitationUse.objects.filter(invitation=invitation).count() == 7
    invitation.refresh_from_db()
    assert invitation.uses == 7
    assert invitation.used_at is not None


def test_removed_person_does_not_come_back_by_the_same_link(
    make_invitation: MakeInvitation, alice: User, charlie: User, team: Team
) -> None:
    invitation, _ = make_invitation(people=5)
    invitations.join(invitation, charlie)
    people.remove_member(alice, Membership.objects.get(user=charlie, team=team))

    with pytest.raises(ActionRefused):
        invitations.join(invitation, charlie)

    invitation.refresh_from_db()
    assert invitation.uses == 1


def test_link_used_with_an_older_version_still_names_who_joined(
    make_invitation: MakeInvitation, signed_in: SignIn, alice: User, bob: User, team: Team
) -> None:
    invitation, _ = make_invitation()
    Invitation.objects.filter(pk=invitation.pk).update(used_at=timezone.now(), used_by=bob)

    page = signed_in(alice).get(reverse("invitations", args=[team.public_id])).content.decode()

    assert "Bob" in page


# --- sending again --------------------------------------------------------------------------------


@pytest.mark.usefixtures("_mail")
def test_sending_again_makes_a_new_link_and_ends_the_old_one(
    signed_in: SignIn, alice: User, team: Team
) -> None:
    client = signed_in(alice)
    post_invite(client, team, emails="jo@example.org")
    Invitation.objects.update(sent_at=timezone.now() - timedelta(hours=1))
    invitation = Invitation.objects.get()

    client.post(reverse("invitation_renew", args=[team.public_id, invitation.pk]))

    old, new = (urlsplit(link_in(message)).path for message in mail.outbox)
    assert Client().get(old).status_code == 404
    assert Client().get(new).status_code == 200
    assert new.split("/")[2] not in everything_stored()
    assert AuditEvent.objects.filter(verb="invitation.renewed").count() == 1


@pytest.mark.usefixtures("_mail")
def test_invitation_is_not_sent_again_at_once(signed_in: SignIn, alice: User, team: Team) -> None:
    client = signed_in(alice)
    post_invite(client, team, emails="jo@example.org")
    invitation = Invitation.objects.get()

    client.post(reverse("invitation_renew", args=[team.public_id, invitation.pk]))

    assert len(mail.outbox) == 1
    assert Client().get(urlsplit(link_in(mail.outbox[0])).path).status_code == 200


@pytest.mark.parametrize("change", [{"used_at": timezone.now()}, {"revoked_at": timezone.now()}])
def test_used_and_revoked_invitations_are_not_renewed(
    make_invitation: MakeInvitation, alice: User, change: dict[str, object]
) -> None:
    invitation, _ = make_invitation()
    Invitation.objects.filter(pk=invitation.pk).update(**change)

    with pytest.raises(ActionRefused):
        invitations.renew(alice, invitation)


def test_link_replaced_while_the_form_is_open_admits_nobody(
    make_invitation: MakeInvitation, alice: User, charlie: User
) -> None:
    opened, _ = make_invitation()
    invitations.renew(alice, Invitation.objects.get(pk=opened.pk))

    with pytest.raises(ActionRefused):
        invitations.join(opened, charlie)
