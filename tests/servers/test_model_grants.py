"""Models per team: one rule decides on every way to a model."""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from chat import access
from chat.conversations.actions import messages
from chat.conversations.actions.messages import ModelChoice
from chat.conversations.paths import read_path
from chat.conversations.preset_choice import can_be_used
from chat.core.errors import ActionRefused
from chat.exports.json_form import write_json
from chat.exports.reading import read_source
from chat.forks.actions import fork
from chat.imports.actions import import_file
from chat.message_queue.sending import _choice_of
from chat.models import (
    Conversation,
    Group,
    GroupMember,
    ModelGrant,
    PresetVersion,
    QueuedMessage,
    Run,
    Team,
    Upstream,
    User,
)
from chat.public_api.catalogue import find_model, offers
from chat.public_api.errors import ApiError
from chat.runs.admission import Trigger
from chat.runs.resume import queue_follow_up
from chat.titles.requests import _is_allowed
from tests.support.rooms import end_run

MODEL = "demo/model"


def limit(upstream: Upstream) -> None:
    upstream.is_limited = True
    upstream.save(update_fields=["is_limited"])


def grant(upstream: Upstream, team: Team, *names: str, **fields: Any) -> ModelGrant:
    return ModelGrant.objects.create(
        upstream=upstream, team=team, model_names=list(names), **fields
    )


def group_of(team: Team, *people: User) -> Group:
    group = Group.objects.create(team=team, name="Research")
    GroupMember.objects.bulk_create(GroupMember(group=group, user=each) for each in people)
    return group


# Rules by name: whether Alice may use the model in her team, and a function that sets the rule up.
RULES: dict[str, tuple[bool, Callable[[Upstream, Team, Team, User, User], object]]] = {
    "no rules": (True, lambda upstream, team, other, alice, bob: None),
    "limited to nobody": (False, lambda upstream, team, other, alice, bob: limit(upstream)),
    "the team": (
        True,
        lambda upstream, team, other, alice, bob: (limit(upstream), grant(upstream, team)),
    ),
    "another team": (
        False,
        lambda upstream, team, other, alice, bob: (limit(upstream), grant(upstream, other)),
    ),
    "this model": (
        True,
        lambda upstream, team, other, alice, bob: (limit(upstream), grant(upstream, team, MODEL)),
    ),
    "a pattern": (
        True,
        lambda upstream, team, other, alice, bob: (
            limit(upstream),
            grant(upstream, team, "demo/*"),
        ),
    ),
    "another model": (
        False,
        lambda upstream, team, other, alice, bob: (limit(upstream), grant(upstream, team, "x")),
    ),
    "her group": (
        True,
        lambda upstream, team, other, alice, bob: (
            limit(upstream),
            grant(upstream, team, group=group_of(team, alice)),
        ),
    ),
    "a group without her": (
        False,
        lambda upstream, team, other, alice, bob: (
            limit(upstream),
            grant(upstream, team, group=group_of(team, bob)),
        ),
    ),
    "a group of another team": (
        False,
        lambda upstream, team, other, alice, bob: (
            limit(upstream),
            grant(upstream, team, group=group_of(other, alice)),
        ),
    ),
}


class Place:
    """The ways to the model in one conversation of Alice's; each returns whether it is open."""

    def __init__(self, client: Client, alice: User, room: Conversation, upstream: Upstream) -> None:
        self.client, self.alice, self.room, self.upstream = client, alice, room, upstream
        self.choice = ModelChoice(upstream=upstream, model=MODEL)

    def _offers(self, address: str) -> bool:
        page = self.client.get(address).content.decode()
        return (
            f'value="{self.upstream.public_id.hex}:{MODEL}"' in page.replace("data-unavailable", "")
            and "data-unavailable" not in page
        )

    def home(self) -> bool:
        return self._offers(reverse("home"))

    def page(self) -> bool:
        return self._offers(reverse("conversation", args=[self.room.public_id]))

    def start(self) -> bool:
        return self._runs(
            lambda: messages.start_conversation(
                self.alice,
                self.room.team,
                text="Hi",
                choice=self.choice,
                idempotency_key=uuid.uuid4(),
            )
        )

    def send(self) -> bool:
        data = {
            "text": "Hi",
            "key": uuid.uuid4().hex,
            "choice": f"{self.upstream.public_id.hex}:{MODEL}",
        }
        self.client.post(reverse("conversation_send", args=[self.room.public_id]), data)
        return Run.objects.filter(conversation=self.room, model=MODEL).exists()

    def action(self) -> bool:
        return self._runs(
            lambda: messages.send_message(
                self.alice,
                self.room,
                parent=None,
                text="Hi",
                choice=self.choice,
                idempotency_key=uuid.uuid4(),
            )
        )

    def compare(self) -> bool:
        other = Upstream.objects.create(
            name="Open", dialect="lmstudio", base_url="http://127.0.0.1:8", model_list=[{"id": "o"}]
        )
        data = {
            "text": "Hi",
            "key": uuid.uuid4().hex,
            "choice": f"{other.public_id.hex}:o",
            "compare": [f"{self.upstream.public_id.hex}:{MODEL}"],
        }
        self.client.post(reverse("conversation_send", args=[self.room.public_id]), data)
        return Run.objects.filter(conversation=self.room, model=MODEL).exists()

    def api_list(self) -> bool:
        return MODEL in [each.model for each in offers(self.alice, self.room.team)]

    def api_chat(self) -> bool:
        try:
            return find_model(self.alice, self.room.team, MODEL).model == MODEL
        except ApiError:
            return False

    def preset(self) -> bool:
        version = PresetVersion(upstream=self.upstream, model=MODEL)
        return can_be_used(version, list(access.usable_upstreams(self.alice, [self.room.team])))

    def queue(self) -> bool:
        upstream = Upstream.objects.get(pk=self.upstream.pk)
        queued = QueuedMessage(author=self.alice, upstream=upstream, model=MODEL)
        return self._runs(lambda: _choice_of(queued, self.room.team_id))

    def titles(self) -> bool:
        run = Run(conversation=self.room, requested_by=self.alice)
        return _is_allowed(run, Upstream.objects.get(pk=self.upstream.pk), MODEL)

    @staticmethod
    def _runs(act: Callable[[], object]) -> bool:
        try:
            act()
        except ActionRefused:
            return False
        return True


WAYS = ("home", "page", "start", "send", "action", "compare", "api_list", "api_chat", "preset")
WAYS += ("queue", "titles")


@pytest.mark.parametrize("rule", RULES)
def test_one_rule_decides_on_every_way(
    signed_in: Callable[[User], Client],
    alice: User,
    bob: User,
    team: Team,
    other_team: Team,
    upstream: Upstream,
    *,
    rule: str,
) -> None:
    is_allowed, set_up = RULES[rule]
    set_up(upstream, team, other_team, alice, bob)
    client = signed_in(alice)

    found = {}
    for way in WAYS:
        room = Conversation.objects.create(team=team, owner=alice)
        found[way] = getattr(Place(client, alice, room, Upstream.objects.get()), way)()
        Run.objects.all().delete()
        Upstream.objects.exclude(pk=upstream.pk).delete()

    assert found == dict.fromkeys(WAYS, is_allowed)


def sent(alice: User, room: Conversation, upstream: Upstream, **parameters: object) -> Run:
    choice = ModelChoice(
        upstream=Upstream.objects.get(pk=upstream.pk), model=MODEL, parameters=parameters
    )
    return messages.send_message(
        alice, room, parent=None, text="Hi", choice=choice, idempotency_key=uuid.uuid4()
    )


@pytest.mark.parametrize(
    ("limits", "chosen", "expected", "notes"),
    [
        ([{}], {"max_tokens": 900}, {"max_tokens": 900}, 0),
        ([{"max_tokens": 500}], {"max_tokens": 400}, {"max_tokens": 400}, 0),
        ([{"max_tokens": 500}], {"max_tokens": 900}, {"max_tokens": 500}, 1),
        ([{"max_tokens": 500}], {"max_tokens": True}, {"max_tokens": 500}, 1),
        # Without a length the server would answer at any length.
        ([{"max_tokens": 500}], {}, {"max_tokens": 500}, 0),
        ([{"temperature": 1}], {}, {}, 0),
        ([{"temperature": 1}], {"temperature": 1.5}, {"temperature": 1}, 1),
        # The most generous of several grants.
        ([{"max_tokens": 500}, {"max_tokens": 700}], {"max_tokens": 900}, {"max_tokens": 700}, 1),
        ([{"max_tokens": 500}, {}], {"max_tokens": 900}, {"max_tokens": 900}, 0),
    ],
)
def test_limit_holds_when_a_run_is_queued(
    alice: User,
    team: Team,
    conversation: Conversation,
    upstream: Upstream,
    *,
    limits: list[dict[str, float]],
    chosen: dict[str, object],
    expected: dict[str, object],
    notes: int,
) -> None:
    limit(upstream)
    for number, each in enumerate(limits):
        group = group_of(team, alice) if number else None
        grant(upstream, team, limits=each, group=group)

    run = sent(alice, conversation, upstream, **chosen)

    assert (run.parameters, len(run.notes)) == (expected, notes)


def test_continuation_is_refused_after_the_team_lost_the_model(
    alice: User, conversation: Conversation, upstream: Upstream
) -> None:
    run = sent(alice, conversation, upstream)
    limit(upstream)

    with pytest.raises(ActionRefused, match="can’t use demo/model"):
        queue_follow_up(
            Run.objects.get(pk=run.pk), [], Trigger.CONTINUATION, requested_by=run.requested_by
        )


def answered(alice: User, room: Conversation, upstream: Upstream) -> Conversation:
    """The conversation with an answer of the model, which it goes on with."""
    end_run(sent(alice, room, upstream))
    room.refresh_from_db()
    assert (room.upstream, room.model) == (upstream, MODEL)
    return room


def forked(user: User, room: Conversation) -> Conversation:
    return fork(user, room, idempotency_key=uuid.uuid4())


def imported(user: User, room: Conversation) -> Conversation:
    """The conversation's file, imported into the same team."""
    written = b"".join(write_json(read_source(user, room)))
    import_file(user, room.team, io.BytesIO(written))
    return Conversation.objects.latest("pk")


@pytest.mark.parametrize("copied", [forked, imported])
@pytest.mark.parametrize("is_allowed", [True, False])
def test_copy_of_a_conversation_opens_no_model(
    signed_in: Callable[[User], Client],
    alice: User,
    team: Team,
    conversation: Conversation,
    upstream: Upstream,
    *,
    copied: Callable[[User, Conversation], Conversation],
    is_allowed: bool,
) -> None:
    """The model of a copy, and those of its answers, are no way to a model that the team has lost."""
    room = answered(alice, conversation, upstream)
    limit(upstream)
    grant(upstream, team, *([] if is_allowed else ["another"]))

    copy = copied(alice, room)

    place = Place(signed_in(alice), alice, copy, Upstream.objects.get())
    assert copy.pk != room.pk
    before = Run.objects.filter(conversation=copy).count()
    answer = read_path(alice, copy).tail
    assert before == 1
    assert answer is not None
    retry = {"key": uuid.uuid4().hex}
    place.client.post(reverse("message_retry", args=[answer.public_id]), retry)
    assert (Run.objects.filter(conversation=copy).count() == before + 1) == is_allowed
    if not is_allowed:
        assert not place.page()
        # The choice of the copy itself, without a choice in the form.
        fields = {"text": "Hi", "key": uuid.uuid4().hex}
        place.client.post(reverse("conversation_send", args=[copy.public_id]), fields)
        assert Run.objects.filter(conversation=copy).count() == before


def test_deleting_the_team_does_not_open_the_server(
    alice: User, team: Team, other_team: Team, upstream: Upstream
) -> None:
    limit(upstream)
    grant(upstream, other_team)

    other_team.delete()

    assert not access.usable_upstreams(alice).exists()


def test_new_conversation_begins_with_the_team_default(
    signed_in: Callable[[User], Client], alice: User, team: Team, upstream: Upstream
) -> None:
    upstream.model_list = [{"id": "a"}, {"id": "b"}]
    upstream.save()
    limit(upstream)
    grant(upstream, team, default_model="b")

    page = signed_in(alice).get(reverse("home")).content.decode()

    assert f'value="{upstream.public_id.hex}:b" selected' in " ".join(page.split())
