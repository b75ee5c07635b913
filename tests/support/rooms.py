"""A conversation that tests fill with turns, its page, and the patches that its page receives."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from django.db import connection, transaction
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from lxml import html

from chat import events
from chat.conversations.actions.messages import ModelChoice, send_message
from chat.models import Conversation, Message, Question, Run, RunStatus, Tool, Upstream, User
from chat.result import Fold, close_open
from chat.runs.outcomes import write_ending

HTMX = {"HX-Request": "true"}
TOKEN = re.compile(rb"\b[A-Za-z0-9]{64}\b")
Headers = dict[str, str]


def message_log(text: str) -> list[events.Event]:
    return [
        events.ChatStart(model_instance_id="demo/model", dialect="lmstudio"),
        events.MessageStart(item=0),
        events.MessageDelta(item=0, content=text),
        events.MessageEnd(item=0),
    ]


def end_run(run: Run, text: str = "By the spring.") -> None:
    """Writes what a runner writes when an answer has ended."""
    end_run_with(run, message_log(text))


def end_run_with(run: Run, log: list[events.Event]) -> None:
    fold = Fold()
    fold.extend(log)
    with transaction.atomic():
        write_ending(run, [*log, *close_open(fold, "stopped")], after=0)
        Run.objects.filter(pk=run.pk).update(status=RunStatus.COMPLETED)
    run.refresh_from_db()


def url_of(route: str, thing: Conversation | Message | Run | Question | Tool) -> str:
    return reverse(route, args=[thing.public_id])


def change(client: Client, verb: str, *conversations: Conversation, **more: object) -> HttpResponse:
    """Posts a change of conversations: to pin, archive, delete them and the like."""
    chosen = [each.public_id.hex for each in conversations]
    headers = more.pop("headers", None)
    return client.post(
        reverse("conversations_change", args=[verb]),
        {"conversation": chosen, **more},
        headers=headers,
    )


def filled_form(
    upstream: Upstream, text: str = "Where does it begin?", **more: object
) -> dict[str, str]:
    """What the composer posts; a message among the fields is given by its id."""
    fields = {
        "text": text,
        "choice": f"{upstream.public_id.hex}:demo/model",
        "key": uuid.uuid4(),
        **more,
    }
    return {
        name: value.public_id.hex if isinstance(value, Message) else str(value)
        for name, value in fields.items()
    }


def get_page(client: Client, url: str) -> html.HtmlElement:
    response = client.get(url)
    assert response.status_code == 200
    return html.fromstring(response.content.decode())


def without_token(response: HttpResponse) -> bytes:
    """The content without the tokens of its forms, which are masked anew for each response."""
    return TOKEN.sub(b"token", response.content)


def text_of(element: html.HtmlElement) -> str:
    return " ".join(element.text_content().split())


def queries_of(client: Client, url: str) -> int:
    with CaptureQueriesContext(connection) as queries:
        assert client.get(url).status_code == 200
    return len(queries)


@dataclass
class Room:
    conversation: Conversation
    upstream: Upstream
    runs: list[Run] = field(default_factory=list)

    @property
    def url(self) -> str:
        return url_of("conversation", self.conversation)

    def ask(self, text: str, below: Message | None = None) -> Run:
        """A message of the owner, whose answer is queued."""
        run = send_message(
            self.conversation.owner,
            self.conversation,
            parent=below,
            text=text,
            choice=ModelChoice(upstream=self.upstream, model="demo/model"),
            idempotency_key=uuid.uuid4(),
        )
        self.runs.append(run)
        return run

    def turn(self, text: str, below: Message | None = None) -> Message:
        """A message of the owner and its finished answer; returns the answer."""
        run = self.ask(text, below)
        end_run(run, f"Answer to: {text}")
        return run.message

    def form(self, text: str = "Where does it begin?", **more: object) -> dict[str, str]:
        return filled_form(self.upstream, text, **more)

    def page(self, client: Client) -> html.HtmlElement:
        return get_page(client, self.url)

    def source(self, client: Client) -> str:
        return str(client.get(self.url).content.decode())

    def position(self, tail: Message, first: Message | None = None, **more: object) -> Headers:
        """The headers of a page that shows the turns from ``first`` to ``tail``; without
        ``first``, only the answer ``tail`` and its question."""
        self.conversation.refresh_from_db()
        position = {
            "first": (first or tail.parent).public_id.hex,
            "tail": tail.public_id.hex,
            "revision": self.conversation.revision,
            "writes": True,
            **more,
        }
        return {**HTMX, "X-Room-Position": json.dumps(position)}

    def live_position(self, run: Run, **more: object) -> Headers:
        """The headers of a page that shows one turn whose answer was live."""
        shown = {"strip": run.public_id.hex, "action": run.public_id.hex, **more}
        return self.position(run.message, **shown)

    def changes(self, client: Client, headers: Headers) -> Patches:
        url = url_of("conversation_changes", self.conversation)
        return Patches(client.get(url, headers=headers))

    def send(self, client: Client, data: dict[str, str], headers: Headers = HTMX) -> HttpResponse:
        url = url_of("conversation_send", self.conversation)
        return client.post(url, data, headers=headers)


class Patches:
    """The patches of a response: for each target what is done with it."""

    def __init__(self, response: HttpResponse) -> None:
        self.response = response
        self.tree = html.fragment_fromstring(response.content.decode(), create_parent="body")
        self.partials = self.tree.xpath("//*[local-name()='hx-partial']")

    @property
    def targets(self) -> set[str]:
        return {partial.get("hx-target") for partial in self.partials}

    def to(self, target: str) -> list[tuple[str, str]]:
        """(swap, text) of the patches of one target."""
        return [
            (partial.get("hx-swap"), text_of(partial))
            for partial in self.partials
            if partial.get("hx-target") == target
        ]

    def swaps(self, target: str) -> list[str]:
        return [swap for swap, _ in self.to(target)]

    def text(self, target: str) -> str:
        """The text of the first patch of this target."""
        return self.to(target)[0][1]

    @property
    def by_target(self) -> dict[str, list[str]]:
        """The HTML for each target, without the CSRF tokens of its forms."""
        found: dict[str, list[str]] = {}
        for token in self.tree.xpath("//input[@name='csrfmiddlewaretoken']"):
            token.set("value", "")
        for partial in self.partials:
            patch = html.tostring(partial, encoding="unicode", with_tail=False)
            found.setdefault(partial.get("hx-target"), []).append(patch)
        return found

    @property
    def turns(self) -> list[str]:
        """The turns that are added to the page."""
        return [turn.get("data-turn") for turn in self.tree.xpath("//article")]

    @property
    def removed(self) -> list[str]:
        return [p.get("hx-target")[2:] for p in self.partials if p.get("hx-swap") == "delete"]


# A conversation, and clients that are signed in.


@pytest.fixture
def room(conversation: Conversation, upstream: Upstream) -> Room:
    return Room(conversation=conversation, upstream=upstream)


@pytest.fixture
def as_alice(alice: User, team: object, signed_in: Callable[[User], Client]) -> Client:
    return signed_in(alice)


@pytest.fixture
def as_bob(bob: User, team: object, signed_in: Callable[[User], Client]) -> Client:
    return signed_in(bob)


@pytest.fixture
def as_viewer(viewer: User, team: object, signed_in: Callable[[User], Client]) -> Client:
    return signed_in(viewer)
