"""A room with turns in it, and a browser's way of asking."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from lxml import html

from chat import events
from chat.actions.conversations import ModelChoice, send_message
from chat.actions.endings import write_ending
from chat.models import Conversation, Message, Run, RunStatus, Upstream, User
from chat.result import Fold, close_open

Log = list[events.Event]


def spoken(text: str) -> Log:
    return [
        events.ChatStart(model_instance_id="demo/model", dialect="lmstudio"),
        events.MessageStart(item=0),
        events.MessageDelta(item=0, content=text),
        events.MessageEnd(item=0),
    ]


def end_run(run: Run, text: str = "By the spring.") -> None:
    """What a runner writes when an answer has ended."""
    log = spoken(text)
    fold = Fold()
    fold.extend(log)
    with transaction.atomic():
        write_ending(run, [*log, *close_open(fold, "stopped")], after=0)
        Run.objects.filter(pk=run.pk).update(status=RunStatus.COMPLETED)
    run.refresh_from_db()


@dataclass
class Room:
    """A conversation as people fill it."""

    conversation: Conversation
    upstream: Upstream
    runs: list[Run] = field(default_factory=list)

    def ask(self, user: User, text: str, below: Message | None = None) -> Run:
        run = send_message(
            user,
            self.conversation,
            parent=below,
            text=text,
            choice=ModelChoice(upstream=self.upstream, model="demo/model"),
            idempotency_key=uuid.uuid4(),
        )
        self.runs.append(run)
        return run

    def turn(self, user: User, text: str, below: Message | None = None) -> Message:
        """A question and its finished answer; returns the answer."""
        run = self.ask(user, text, below)
        end_run(run, f"Answer to: {text}")
        return run.message


@pytest.fixture
def room(conversation: Conversation, upstream: Upstream) -> Room:
    return Room(conversation=conversation, upstream=upstream)


def position(
    first: Message, tail: Message, conversation: Conversation, **more: Any
) -> dict[str, str]:
    """The headers of a page that shows the turns from ``first`` to ``tail``."""
    conversation.refresh_from_db()
    said = {
        "first": first.public_id.hex,
        "tail": tail.public_id.hex,
        "revision": conversation.revision,
        "writes": True,
        **more,
    }
    return {"HX-Request": "true", "X-Room-Position": json.dumps(said)}


HTMX = {"HX-Request": "true"}


class Patches:
    """The patches of an answer: for each target what is to be done with it."""

    def __init__(self, response: HttpResponse) -> None:
        self.tree = html.fragment_fromstring(response.content.decode(), create_parent="body")
        self.partials = self.tree.xpath("//*[local-name()='hx-partial']")

    def to(self, target: str) -> list[tuple[str, str]]:
        """(swap, text) of the patches of one target."""
        return [
            (partial.get("hx-swap"), " ".join(partial.text_content().split()))
            for partial in self.partials
            if partial.get("hx-target") == target
        ]

    @property
    def by_target(self) -> dict[str, list[str]]:
        """What each target gets, as HTML, without the tokens of its forms."""
        found: dict[str, list[str]] = {}
        for token in self.tree.xpath("//input[@name='csrfmiddlewaretoken']"):
            token.set("value", "")
        for partial in self.partials:
            patch = html.tostring(partial, encoding="unicode", with_tail=False)
            found.setdefault(partial.get("hx-target"), []).append(patch)
        return found

    @property
    def turns(self) -> list[str]:
        """The turns that would come into the page."""
        return [turn.get("data-turn") for turn in self.tree.xpath("//article")]

    @property
    def removed(self) -> list[str]:
        return [p.get("hx-target")[2:] for p in self.partials if p.get("hx-swap") == "delete"]


Post = Callable[..., HttpResponse]


@pytest.fixture
def form_of(upstream: Upstream) -> Callable[..., dict[str, str]]:
    """What the composer posts."""

    def fill(text: str = "Where does it begin?", **more: object) -> dict[str, str]:
        fields: Mapping[str, object] = {
            "text": text,
            "choice": f"{upstream.public_id.hex}:demo/model",
            "key": str(uuid.uuid4()),
            **more,
        }
        return {name: str(value) for name, value in fields.items()}

    return fill


def address(route: str, thing: Conversation | Message | Run) -> str:
    return reverse(route, args=[thing.public_id])


@pytest.fixture
def as_alice(alice: User, team: object, signed_in: Callable[[User], Client]) -> Client:
    return signed_in(alice)


@pytest.fixture
def as_bob(bob: User, team: object, signed_in: Callable[[User], Client]) -> Client:
    return signed_in(bob)


@pytest.fixture
def as_viewer(viewer: User, team: object, signed_in: Callable[[User], Client]) -> Client:
    return signed_in(viewer)


def sign_out_everywhere(user: User) -> None:
    from django.contrib.sessions.models import Session

    Session.objects.all().delete()


LOGIN = settings.LOGIN_URL
