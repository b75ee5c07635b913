"""Twenty random verbs by three people, over notifications that get lost, end in the page that a reload shows.

`make test-all` does it with 30 seeds; ``SEEDS=2000 make test ARGS=tests/conversations/test_convergence.py`` with
2,000.
"""

from __future__ import annotations

import os
import random
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.http import Http404
from django.test import Client
from django.urls import reverse

from chat import access
from chat.message_queue import sending
from chat.models import (
    Conversation,
    Membership,
    Participant,
    Project,
    QueuedMessage,
    Run,
    RunStatus,
    Team,
    TeamRole,
    Upstream,
    User,
    Visibility,
)
from chat.models.run import LIVE_STATUSES
from tests.questions.test_questions import APPROVAL, ASK, end_waiting
from tests.support.rooms import Room, end_run, url_of
from tests.support.shown_page import ShownPage

SEEDS = int(os.environ.get("SEEDS", "30"))
# In one test, so that a failure comes early, and the tests share the cores.
IN_ONE_TEST = 10
STEPS = 20

MakeUser = Callable[..., User]
SignedIn = Callable[[User], Client]
Verb = Callable[["Walk", ShownPage], object]


class Walk:
    """One conversation, its three pages, and what happens to them by chance."""

    def __init__(self, seed: int, room: Room, pages: Sequence[ShownPage], project: Project) -> None:
        self.chance = random.Random(seed)
        self.room, self.pages, self.project = room, pages, project
        self.log: list[str] = []
        # Updates that were made for a page and have not arrived: page, state, update.
        self._late: list[tuple[ShownPage, Any]] = []

    def step(self) -> None:
        verb = self.chance.choice(VERBS)
        page = self.chance.choice([page for page in self.pages if not page.is_gone] or [None])
        if page is None:
            return
        self.log.append(f"{page.user.name} {verb.__name__}")
        verb(self, page)
        for each in self.pages:
            self.chance.choice(ARRIVALS)(self, each)

    def post(self, page: ShownPage, url: str, **data: object) -> None:
        is_lost = self.chance.random() < 0.15
        response = page.post(url, is_lost=is_lost, **data)
        self.log[-1] += f" {response.status_code}{' lost' if is_lost else ''}"

    def runs(self) -> list[Run]:
        live = Run.objects.filter(conversation=self.room.conversation, status__in=LIVE_STATUSES)
        return list(live.select_related("message").order_by("pk"))

    def ids_on(self, page: ShownPage, path: str) -> list[uuid.UUID]:
        return [uuid.UUID(found) for found in page.find(path)]

    # --- what arrives -------------------------------------------------------------------------

    def nothing(self, page: ShownPage) -> None:
        """The notification got lost."""

    def update(self, page: ShownPage) -> None:
        if not page.is_gone:
            page.take_update(*page.update())

    def update_later(self, page: ShownPage) -> None:
        if not page.is_gone:
            self._late.append((page, page.update()))

    def late_updates(self, page: ShownPage) -> None:
        for _, made in [late for late in self._late if late[0] is page]:
            page.take_update(*made)
        self._late = [late for late in self._late if late[0] is not page]

    def request(self, page: ShownPage) -> None:
        page.pull()

    def queue(self, page: ShownPage) -> None:
        page.take_queue()

    # --- the end --------------------------------------------------------------------------------

    def converge(self, page: ShownPage) -> None:
        """The look that comes once a second, until it finds nothing more to tell."""
        self.late_updates(page)
        for _ in range(5):
            try:
                room = access.get_conversation(page.user, self.room.conversation.public_id)
            except Http404:
                # The connection ends, and says so.
                page.is_gone = True
                return
            context = access.context_of(page.user, room)
            # The list beside the page tells of pins.
            is_other = (context.may_write, context.is_pinned) != (page.writes, page.is_pinned)
            if is_other or page.has_lost:
                page.pull()
            elif page.revision < room.revision:
                page.take_update(*page.update())
        page.take_queue()


def key() -> str:
    return str(uuid.uuid4())


# --- verbs -----------------------------------------------------------------------------------------


def send(walk: Walk, page: ShownPage) -> None:
    parent = page.find("//*[@id='composer-aim']/input/@value")
    more = {"parent": parent[0]} if parent else {}
    form = walk.room.form(f"Message {walk.chance.randrange(1000)}", **more)
    walk.post(page, url_of("conversation_send", walk.room.conversation), **form)


def compare(walk: Walk, page: ShownPage) -> None:
    parent = page.find("//*[@id='composer-aim']/input/@value")
    more = {"parent": parent[0]} if parent else {}
    form = walk.room.form(f"Compare {walk.chance.randrange(1000)}", **more)
    server = walk.room.upstream.public_id.hex
    compared = [f"{server}:demo/{number}" for number in range(walk.chance.choice((1, 2)))]
    walk.post(page, url_of("conversation_send", walk.room.conversation), compare=compared, **form)


def choose(walk: Walk, page: ShownPage) -> None:
    found = page.find("//form[@data-choose]/@action")
    if found:
        walk.post(page, walk.chance.choice(found))
        # The picker of a page is its reader's, and stays as it is.
        Conversation.objects.update(model="demo/model")


def edit(walk: Walk, page: ShownPage) -> None:
    found = walk.ids_on(page, "//article[contains(@class, 'person-turn')]/@data-turn")
    if found:
        url = reverse("message_edit", args=[walk.chance.choice(found)])
        choice = walk.room.form()["choice"]
        walk.post(page, url, text=f"Edit {walk.chance.randrange(1000)}", key=key(), choice=choice)


def retry(walk: Walk, page: ShownPage) -> None:
    found = page.find("//form[starts-with(@id, 'retry-')]/@action")
    if found:
        walk.post(page, walk.chance.choice(found), key=key(), choice=walk.room.form()["choice"])


def show_version(walk: Walk, page: ShownPage) -> None:
    found = page.find("//*[@id='turns']//form[contains(@action, '/show/')]/@action")
    if found:
        walk.post(page, walk.chance.choice(found))


def stop(walk: Walk, page: ShownPage) -> None:
    for action in page.find("//form[@id='stop-form']/@action"):
        walk.post(page, action)


def rename(walk: Walk, page: ShownPage) -> None:
    url = url_of("conversation_rename", walk.room.conversation)
    walk.post(page, url, title=f"Title {walk.chance.randrange(1000)}")


def answer(walk: Walk, page: ShownPage) -> None:
    found = walk.ids_on(page, "//*[contains(@class, 'ask-line')]/@data-ask")
    if found:
        verb = walk.chance.choice(("claim", "answer", "answer", "refuse", "release"))
        url = reverse(f"question_{verb}", args=[walk.chance.choice(found)])
        walk.post(page, url, selected="0")


def go_on(walk: Walk, page: ShownPage) -> None:
    for action in page.find("//form[contains(@action, '/go-on/')]/@action")[:1]:
        walk.post(page, action)


def end_answer(walk: Walk, page: ShownPage) -> None:
    for run in walk.runs()[:1]:
        end_run(run, "It flows.")


def fail_answer(walk: Walk, page: ShownPage) -> None:
    for run in walk.runs()[:1]:
        end_run(run, "It fl")
        status = walk.chance.choice((RunStatus.FAILED, RunStatus.CUT, RunStatus.INTERRUPTED))
        Run.objects.filter(pk=run.pk).update(status=status)


def ask(walk: Walk, page: ShownPage) -> None:
    for run in walk.runs()[:1]:
        end_waiting(run, asks=(walk.chance.choice((ASK, APPROVAL)),))


def advance(walk: Walk, page: ShownPage) -> None:
    sending.advance(walk.room.conversation.pk)


def of_queue(verb: str) -> Verb:
    def act(walk: Walk, page: ShownPage) -> None:
        queued = list(QueuedMessage.objects.filter(conversation=walk.room.conversation))
        if queued:
            url = url_of(f"queued_message_{verb}", walk.chance.choice(queued))  # type: ignore[arg-type]
            walk.post(page, url, text=f"Better {walk.chance.randrange(1000)}")

    act.__name__ = f"{verb}_queued"
    return act


def change_visibility(walk: Walk, page: ShownPage) -> None:
    url = url_of("conversation_visibility", walk.room.conversation)
    walk.post(page, url, visibility=walk.chance.choice(("team", "team_read", "private")))


def share(walk: Walk, page: ShownPage) -> None:
    who = walk.chance.choice(walk.pages).user
    role = walk.chance.choice(("reader", "writer", "manager"))
    url = url_of("participant_add", walk.room.conversation)
    walk.post(page, url, who=f"person:{who.public_id.hex}", role=role)


def change_role(walk: Walk, page: ShownPage) -> None:
    rows = list(Participant.objects.filter(conversation=walk.room.conversation))
    if rows:
        room = walk.room.conversation.public_id
        url = reverse("participant", args=[room, walk.chance.choice(rows).public_id])
        change = {"role": walk.chance.choice(("reader", "writer", "manager"))}
        walk.post(page, url, **(change if walk.chance.random() < 0.7 else {"remove": "1"}))


def organize(verb: str) -> Verb:
    def act(walk: Walk, page: ShownPage) -> None:
        url = reverse("conversations_change", args=[verb])
        walk.post(page, url, conversation=walk.room.conversation.public_id.hex)

    act.__name__ = verb
    return act


def move(walk: Walk, page: ShownPage) -> None:
    to = walk.chance.choice((walk.project.public_id.hex, "none"))
    form = {"conversation": walk.room.conversation.public_id.hex, "project": to, "confirmed": "1"}
    walk.post(page, reverse("projects_move"), **form)


def save_draft(walk: Walk, page: ShownPage) -> None:
    walk.post(page, url_of("draft_save", walk.room.conversation), text="Half a", version="0")


VERBS: Sequence[Verb] = (
    *(compare, compare, choose, choose),
    *(send, send, send, send, edit, retry, show_version, stop, rename, answer, answer, go_on),
    *(end_answer, end_answer, end_answer, fail_answer, ask, ask, advance, advance),
    *(of_queue("edit"), of_queue("remove"), of_queue("send")),
    *(change_visibility, share, change_role, move, save_draft),
    *map(organize, ("pin", "unpin", "archive", "unarchive")),
)
ARRIVALS: Sequence[Verb] = (
    *(Walk.nothing, Walk.nothing, Walk.nothing, Walk.update, Walk.update),
    *(Walk.update_later, Walk.late_updates, Walk.request, Walk.queue),
)


@pytest.fixture
def people(team: Team, alice: User, bob: User, make_user: MakeUser) -> list[User]:
    cleo = make_user("Cleo")
    Membership.objects.create(team=team, user=cleo, role=TeamRole.MEMBER)
    return [alice, bob, cleo]


@pytest.fixture
def project(team: Team, alice: User) -> Project:
    return Project.objects.create(team=team, name="Delta", created_by=alice)


@pytest.mark.slow
@pytest.mark.timeout(60 * IN_ONE_TEST)
@pytest.mark.parametrize("first", range(0, SEEDS, IN_ONE_TEST))
def test_pages_equal_a_reload(
    first: int,
    people: list[User],
    project: Project,
    upstream: Upstream,
    signed_in: SignedIn,
    subtests: pytest.Subtests,
) -> None:
    clients = [signed_in(person) for person in people]
    for seed in range(first, min(first + IN_ONE_TEST, SEEDS)):
        conversation = Conversation.objects.create(
            team=project.team, owner=people[0], visibility=Visibility.TEAM, title="Shared"
        )
        room = Room(conversation=conversation, upstream=upstream)
        room.turn("Where does it begin?")
        pages = [
            ShownPage(client, person, conversation)
            for client, person in zip(clients, people, strict=True)
        ]
        walk = Walk(seed, room, pages, project)
        with subtests.test(msg=f"seed {seed}"):
            for _ in range(STEPS):
                walk.step()
            for page in pages:
                walk.converge(page)
                if not page.is_gone:
                    fresh = ShownPage(page.client, page.user, conversation)
                    differences = "\n".join(page.differences(fresh))
                    assert not differences, f"{page.user.name}: {walk.log}\n{differences}"
