"""What an administrator gets at each page with content of a conversation, by the reason that they have.

One row a page, one column a relation to Alice's private conversation. ``SHOWS``: the page has its content.
``HIDES``: the page is there without it. ``ASKS``: the page leads to the one that asks for a reason.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from django.db import transaction
from django.db.models import Model
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat.models import (
    AccessToken,
    Artifact,
    ArtifactVersion,
    AuditEvent,
    Conversation,
    Membership,
    Mockup,
    MockupVersion,
    RawSegment,
    Run,
    SeenEvent,
    Team,
    TeamRole,
    Upstream,
    User,
    Visibility,
)
from chat.public_api.endpoints import get_run
from chat.public_api.errors import ApiError
from chat.public_api.requests import read_request
from chat.public_api.sending import send
from chat.runs.public_events import response_id_of
from tests.access_matrix.routes import all_routes
from tests.administration.conversations import answer, ask
from tests.support.files import store_file
from tests.support.reasons import give_reason
from tests.support.selection import one_of_each

SHOWS, HIDES, ASKS = "shows", "hides", "asks"
Outcome = str | int
# In every text of the conversation, its title, its files and what its answers made.
CONTENT = "heirloom"
RELATIONS = ("no reason", "another's", "expired", "valid", "member", "no administrator")


@dataclass(frozen=True)
class Page:
    """A page, and what each relation gets, in the order of ``RELATIONS``."""

    route: str
    outcomes: tuple[Outcome, ...]
    # The row of which it is; its key or public id is in the address.
    of: str = ""
    more: tuple[object, ...] = ()
    query: dict[str, str] = field(default_factory=dict)
    method: str = "get"

    @property
    def label(self) -> str:
        return " ".join([self.method, self.route, *self.query, *map(str, self.more)])


READ = (ASKS, ASKS, ASKS, SHOWS, SHOWS, 403)
LISTED = (HIDES, HIDES, HIDES, SHOWS, SHOWS, 403)
NEVER = (HIDES, HIDES, HIDES, HIDES, HIDES, 403)
ABSENT = (404, 404, 404, 404, 404, 403)
REFUSED = (403,) * 6
# Pages of the application: a reason opens none of them.
MEMBERS = (404, 404, 404, 404, SHOWS, 404)
# What a server sent repeats the settings of the writers, and the member is a viewer.
WRITERS = (404,) * 6
OPENS = (404, 404, 404, 404, 200, 404)
OWN_LISTS = (HIDES, HIDES, HIDES, HIDES, SHOWS, HIDES)
# Pages of records that belong to no conversation, and of Django itself.
WITHOUT_CONTENT = (
    r"admin:(chat_(accesstoken|invitation|runner|auditevent|team|upstream|user)_.*"
    r"|chat_\w+_add|login|logout|password_change|jsi18n|view_on_site|.*[(<].*)"
)
READERS = ("conversation", "run", "storedfile", "artifactversion", "mockupversion")

ADMINISTRATION = [
    Page("admin:index", LISTED),
    Page("admin:app_list", (302,) * 5 + (403,), more=("chat",)),
    *(Page(f"admin:chat_{model}_changelist", LISTED) for model in READERS),
    *(Page(f"admin:chat_{model}_change", READ, model) for model in READERS),
    *(Page(f"admin:chat_{model}_history", ABSENT, model) for model in READERS),
    *(Page(f"admin:chat_{model}_delete", REFUSED, model) for model in READERS),
    *(Page(f"admin:chat_{model}_change", (ASKS, ASKS, ASKS, 200, 200, 403), model, method="head")
      for model in READERS),
    # A search in texts and titles has a reason of its own, for everyone who searches.
    Page("admin:chat_conversation_changelist", (ASKS,) * 5 + (403,), query={"q": "elder"}),
    Page("admin:chat_run_changelist", NEVER, query={"q": "elder"}),
    *(
        Page(f"admin:chat_{model}_changelist", LISTED, query={"q": "elder"})
        for model in ("storedfile", "artifactversion", "mockupversion")
    ),
    Page("admin:chat_conversation_changelist", LISTED, query={"o": "1"}),
    Page("admin:chat_conversation_changelist", (400,) * 5 + (403,),
         query={"title__startswith": "h"}),
    Page("admin:autocomplete", (404,) * 5 + (403,), query={"term": "elder", "app_label": "chat",
         "model_name": "run", "field_name": "conversation"}),
    Page("admin:chat_auditevent_changelist", LISTED),
    Page("admin:chat_auditevent_change", LISTED, "event"),
    Page("admin:chat_user_changelist", NEVER),
    Page("admin:chat_user_change", NEVER, "owner"),
    Page("admin:chat_team_changelist", NEVER),
    Page("admin:chat_team_change", NEVER, "team"),
    Page("admin:chat_upstream_changelist", NEVER),
    Page("admin:chat_upstream_change", NEVER, "upstream"),
    Page("administrator_open", (HIDES, HIDES, HIDES, 302, 302, 403), "conversation"),
    *(Page(route, NEVER) for route in ("servers", "accounts")),
    *(Page(f"server{tab}", NEVER, "upstream")
      for tab in ("", "_models", "_settings", "_diagnostics")),
]  # fmt: skip

APPLICATION = [
    Page("conversation", MEMBERS, "conversation"),
    Page("conversation_changes", OPENS, "conversation"),
    *(Page("conversation_export", MEMBERS, "conversation", (form,))
      for form in ("json", "markdown", "branches", "html")),
    Page("conversation_print", MEMBERS, "conversation"),
    Page("conversation_files", MEMBERS, "conversation"),
    Page("conversation_zip", OPENS, "conversation"),
    Page("conversation_find", MEMBERS, "conversation", query={"q": "elder"}),
    Page("conversation_people", OPENS, "conversation"),
    *(Page(route, MEMBERS, "run") for route in ("run_details", "run_text", "run_log")),
    Page("run_event", MEMBERS, "run", (3,)),
    Page("run_export", WRITERS, "run", ("raw",)),
    Page("run_export", MEMBERS, "run", ("events",)),
    Page("run_replay", OPENS, "run"),
    Page("run_replay_frames", OPENS, "run"),
    Page("message_find", (404, 404, 404, 404, 302, 404), "answer"),
    Page("message_source", MEMBERS, "question"),
    Page("file", OPENS, "storedfile"),
    Page("artifact", MEMBERS, "artifact", (1,)),
    Page("artifact_code", MEMBERS, "artifact", (1,)),
    Page("artifact_raw", OPENS, "artifact", (1,)),
    Page("artifact_versions", OPENS, "artifact", (1,)),
    Page("mockup", MEMBERS, "mockup", (1,)),
    Page("mockup_files", OPENS, "mockup", (1,)),
    *(Page(route, OWN_LISTS)
      for route in ("home", "conversations", "inbox", "conversations_trash")),
    Page("search", OWN_LISTS, query={"q": "elder"}),
    Page("search_palette", OWN_LISTS, query={"q": "elder"}),
    *(Page(route, (HIDES,) * 6) for route in ("data", "exports")),
]  # fmt: skip


@pytest.fixture
def rows(alice: User, team: Team, upstream: Upstream) -> dict[str, Model]:
    """Alice's private conversation with one of everything, by the names that the table has."""
    room = Conversation.objects.create(team=team, owner=alice, title=f"The {CONTENT}")
    question = ask(room, alice, f"Who keeps the {CONTENT}? The elder?")
    run = answer(question, f"The {CONTENT} is the elder one’s.", upstream=upstream)
    artifact = Artifact.objects.create(conversation=room, artifact_id=CONTENT)
    mockup = Mockup.objects.create(conversation=room, bundle_id=CONTENT)
    version = {"run": run, "number": 1, "seq": 2, "title": f"Board of the {CONTENT}"}
    RawSegment.objects.create(run=run, position=0, body=f"data: {CONTENT}\n\n".encode())
    SeenEvent.objects.create(upstream=upstream, name="x_new", is_known=False, sample='{"a": "…"}')
    return {
        "conversation": room,
        "question": question,
        "answer": run.message,
        "run": run,
        "storedfile": store_file(
            conversation=room, name=f"{CONTENT}.txt", media_type="text/plain", body=CONTENT.encode()
        ),
        "artifact": artifact,
        "artifactversion": ArtifactVersion.objects.create(
            artifact=artifact, content=f"Dear {CONTENT}", **version
        ),
        "mockup": mockup,
        "mockupversion": MockupVersion.objects.create(mockup=mockup, **version),
        "event": AuditEvent.objects.record(
            None, "conversation.erase", target=f"conversation {room.public_id}"
        ),
        "owner": alice,
        "team": team,
        "upstream": upstream,
    }


def relate(relation: str, administrator: User, room: Conversation) -> None:
    late = timezone.now() - timedelta(minutes=61)
    match relation:
        case "another's":
            other = Conversation.objects.create(team=room.team, owner=room.owner, title="Other")
            give_reason(administrator, other)
        case "expired":
            give_reason(administrator, room, given_at=late)
        case "valid":
            give_reason(administrator, room)
        case "member":
            Membership.objects.create(team=room.team, user=administrator, role=TeamRole.VIEWER)
            Conversation.objects.filter(pk=room.pk).update(visibility=Visibility.TEAM)
        case "no administrator":
            # Who is none any more has a reason of before.
            give_reason(administrator, room)
            User.objects.filter(pk=administrator.pk).update(is_staff=False, is_superuser=False)


def outcome(client: Client, page: Page, rows: dict[str, Model]) -> Outcome:
    args = list(page.more)
    if page.of:
        row = rows[page.of]
        is_by_key = page.route.startswith("admin:")
        args.insert(0, row.pk if is_by_key else row.public_id)  # type: ignore[attr-defined]
    response = getattr(client, page.method)(reverse(page.route, args=args), page.query)
    location = response.headers.get("Location", "")
    if location.startswith("/administration/"):
        return ASKS
    if location.startswith(reverse("admin:login")):
        response = client.get(location)
    if response.status_code != 200 or page.method == "head":
        return response.status_code
    body = b"".join(response) if response.streaming else response.content
    return SHOWS if CONTENT.encode() in body else HIDES


@pytest.mark.parametrize("page", [*ADMINISTRATION, *APPLICATION], ids=lambda page: page.label)
def test_page(
    page: Page,
    administrator: User,
    rows: dict[str, Model],
    signed_in: Callable[[User], Client],
    subtests: pytest.Subtests,
) -> None:
    client = signed_in(administrator)
    room = rows["conversation"]
    assert isinstance(room, Conversation)
    outcomes = dict(zip(RELATIONS, page.outcomes, strict=True))
    for relation in one_of_each(outcomes, by=page.label):
        wanted = outcomes[relation]
        with subtests.test(relation), transaction.atomic():
            relate(relation, administrator, room)

            found = outcome(client, page, rows)

            assert (200 if wanted == 200 and found in (SHOWS, HIDES) else found) == wanted
            if wanted in (ASKS, HIDES, 404, 403):
                # Nothing was read, so nothing is recorded.
                assert not AuditEvent.objects.filter(verb__endswith="read_by_administrator")
            transaction.set_rollback(True)


def test_programs_of_an_administrator(
    administrator: User, rows: dict[str, Model], subtests: pytest.Subtests
) -> None:
    """With a token for the team, whose colleague the administrator is then: a reason opens no answer to
    programs, neither to read nor to go on from."""
    room, run = rows["conversation"], rows["run"]
    assert isinstance(room, Conversation)
    assert isinstance(run, Run)
    token = AccessToken.objects.create(user=administrator, team=room.team, token_hash="0" * 64)
    body = {"model": run.model, "input": "And then?"}
    body["previous_response_id"] = response_id_of(run.public_id)
    goes_on = read_request(json.dumps(body).encode())
    for relation in RELATIONS:
        with subtests.test(relation), transaction.atomic():
            relate(relation, administrator, room)
            is_member = relation == "member"
            Membership.objects.update_or_create(
                team=room.team, user=administrator, defaults={"role": TeamRole.MEMBER}
            )
            reaches = (
                lambda: get_run(token, run.public_id),
                lambda: send(token, goes_on, uuid.uuid4()),
            )

            for reach in reaches:
                if is_member:
                    reach()
                    continue
                with pytest.raises(ApiError) as refused:
                    reach()
                assert refused.value.status == 404
            transaction.set_rollback(True)


def test_every_page_of_the_administration_is_in_the_table() -> None:
    """A new model or a new page of one needs a row here, or is named as one without content."""
    listed = {page.route for page in ADMINISTRATION}
    pages = {name for name in all_routes() if name.startswith("admin:")}

    assert {name for name in pages - listed if not re.match(WITHOUT_CONTENT, name)} == set()
