"""The audit log says what happened in a sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

from chat.administration.sentences import VERBS, marked_sentence, sentence
from chat.models import AuditEvent, Conversation, User
from tests.administration.pages import list_url, text_of

NOUNS = {verb.partition(".")[0] for verb in VERBS}
VERB = re.compile(
    rf'"((?:{"|".join(NOUNS)})\.[a-z_]+)"|objects\.record\(\s*\S+\s*"([a-z_]+\.[a-z_]+)"'
)


def test_every_recorded_action_has_a_sentence_and_a_name() -> None:
    folder = Path(settings.BASE_DIR, "chat")
    recorded = {
        verb
        for file in folder.rglob("*.py")
        if "AuditEvent" in (text := file.read_text())
        for found in VERB.findall(text)
        for verb in found
        if verb
    }

    assert recorded
    assert recorded - VERBS.keys() == set()
    assert all(texts.keys() > {"name"} for texts in VERBS.values())


CASES: list[tuple[str, str, dict[str, object], str]] = [
    ("membership.role_changed", "River", {"before": "member", "after": "admin"},
     "Ada changed Alice’s role in River from member to admin"),
    ("membership.removed", "River", {"role": "member"}, "Ada removed Alice from River"),
    ("invitation.created", "River", {"role": "viewer", "email": "i@example.org"},
     "Ada invited i@example.org to River (role: viewer)"),
    ("invitation.created", "River", {"role": "member", "email": ""},
     "Ada created an invitation link to River (role: member)"),
    ("user.changed", "a@example.org", {"is_staff": {"from": False, "to": True}},
     "Ada made Alice an administrator"),
    ("user.changed", "a@example.org", {"name": {"from": "A", "to": "B"}},
     "Ada changed Alice’s account"),
    ("upstream.test", "Rack 2 0a3bd2e2-6a5e-4a37-9d39-0c1f9c4d8b11",
     {"steps": {"address": "ok", "key": "failed"}}, "Ada tested the server Rack 2: failed"),
    ("token.created", "River", {"token": "Nightly", "hint": "abcd"},
     "Ada created the access token “Nightly” for River"),
    ("conversation.read_by_administrator", "conversation x", {},
     "Ada read Alice’s conversation (title no longer stored)"),
    ("conversation.opened_by_administrator", "conversation 0a3bd2e2-6a5e-4a37-9d39-0c1f9c4d8b11",
     {"reason": "Report 12"},
     "Ada opened Alice’s conversation 0a3bd2e2-6a5e-4a37-9d39-0c1f9c4d8b11: “Report 12”"),
    ("conversation.search_by_administrator", "", {"words": "boat", "reason": "Report 12"},
     "Ada searched all conversations for “boat”: “Report 12”"),
    ("conversation.search_by_administrator", "", {"words": "boat"},
     "Ada searched all conversations for “boat”"),
    ("installation.restored", "", {"made_at": "2026-03-04T15:06:00+00:00"},
     "The database was replaced with the backup of Mar 4, 2026, 3:06 PM UTC from the command line"),
    ("installation.title_model_chosen", "", {"server": "Hall", "model": "small"},
     "Ada chose small on Hall to write conversation titles"),
    ("installation.title_model_chosen", "", {}, "Ada turned off conversation titles by a model"),
    ("feedback.exported", "", {"count": 3, "reason": "Report 12"},
     "Ada exported the ratings of answers: “Report 12”"),
    ("feedback.exported_with_conversations", "River", {"count": 3, "reason": "Report 12"},
     "Ada exported the ratings of answers in River with their conversations: “Report 12”"),
    ("upstream.grant", "Hall", {"place": "River"}, "Ada gave River access to the server Hall"),
    ("user.signed_out", "a@example.org", {"tokens": 2},
     "Ada signed Alice out everywhere (access tokens revoked: 2)"),
    ("later.verb", "River", {}, "Ada: later.verb River"),
]  # fmt: skip


def test_sentences_name_people_and_things(
    administrator: User, alice: User, subtests: pytest.Subtests
) -> None:
    for verb, target, detail, expected in CASES:
        with subtests.test(expected):
            event = AuditEvent(
                actor=administrator, verb=verb, subject=alice, target=target, detail=detail
            )

            assert sentence(event) == expected


def test_person_who_leaves_was_not_removed(alice: User) -> None:
    event = AuditEvent(actor=alice, verb="membership.removed", subject=alice, target="River")

    assert sentence(event) == "Alice left River"


STRANGE = (None, [], "x", {"steps": "x"}, {"is_staff": "x"}, {"role": ["x"], "made_at": {}})


@pytest.mark.parametrize("verb", VERBS)
def test_strange_details_are_no_error(db: None, verb: str) -> None:
    for detail in STRANGE:
        text = sentence(AuditEvent(verb=verb, detail=detail))

        assert text, detail
        assert "%(" not in text, detail


def test_names_are_escaped_and_isolated(alice: User) -> None:
    alice.name = "<b>%(target)s"
    event = AuditEvent(actor=alice, verb="team.created", target="\u202e<i>")

    text = marked_sentence(event)

    assert text == ("<bdi>&lt;b&gt;%(target)s</bdi> created the team <bdi>\u202e&lt;i&gt;</bdi>")


def test_filter_names_the_actions(admin_client: Client, private_conversation: Conversation) -> None:
    AuditEvent.objects.create(verb="user.renamed")
    AuditEvent.objects.create(verb="team.created")

    page = text_of(admin_client, list_url("auditevent"))

    assert "<span>Name changed</span>" in page
    assert "<span>Team created</span>" in page
