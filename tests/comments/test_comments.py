"""Comments: who is concerned, what stays when one is deleted, their limits, and where they must not be."""

from __future__ import annotations

import json
import uuid

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from lxml import html

from chat import access
from chat.comments import actions
from chat.comments.actions import Passage
from chat.comments.channel import VersionLook, render_marks
from chat.core.errors import ActionRefused, InvalidForm, KeyReused
from chat.models import Comment, Conversation, Message, User
from chat.runs.prompt import prepare
from tests.comments.conftest import Begin, reply
from tests.exports.test_downloads import content_of
from tests.support.rooms import HTMX, Room, text_of, url_of

pytestmark = pytest.mark.databases(slow=True)

PASSAGE = Passage(part="r1-i0", quote="the spring", prefix="By", suffix=".", start=2)


def texts(*, of: Comment | None = None) -> list[str]:
    rows = Comment.objects.order_by("pk")
    return [row.text for row in (rows.filter(thread=of.pk) if of else rows)]


def version(room: Room) -> int:
    room.conversation.refresh_from_db()
    return room.conversation.comments_version


# --- what people do -------------------------------------------------------------------------------


def test_thread_is_shown_in_its_place(
    room: Room, begin: Begin, as_viewer: Client, alice: User, bob: User
) -> None:
    hostile = 'Which <b>one</b>? https://example.org/a?"onclick=x rel="nofollow" javascript:hit()'
    thread = begin(bob, hostile, passage=PASSAGE)
    reply(alice, thread, "The long one.")
    actions.begin_thread(bob, thread.message.parent, text="Good question.", key=uuid.uuid4())

    response = as_viewer.get(url_of("conversation_comments", room.conversation))

    words = response.content.decode()
    assert words.index("Good question.") < words.index("the spring") < words.index("The long one.")
    assert "Which &lt;b&gt;one&lt;/b&gt;?" in words
    (link,) = html.fromstring(words).xpath("//div[@class='comment-body']/a")
    assert dict(link.attrib) == {
        "href": "https://example.org/a",
        "target": "_blank",
        "rel": "noopener noreferrer nofollow",
    }
    assert "=x rel=&quot;nofollow&quot; javascript:hit()" in words
    assert "Edit" not in words


def test_comment_is_no_news(room: Room, begin: Begin, bob: User) -> None:
    room.conversation.refresh_from_db()
    before = room.conversation.revision, room.conversation.updated_at

    begin(bob, "Which one?")

    assert version(room) == 1
    assert (room.conversation.revision, room.conversation.updated_at) == before


def test_form_counts_once(answer: Message, as_bob: Client) -> None:
    form = {"text": "Which one?", "key": str(uuid.uuid4())}
    url = url_of("message_comments", answer)

    responses = [as_bob.post(url, form, headers=HTMX) for _ in range(2)]
    other = as_bob.post(url, {**form, "text": "Another"}, headers=HTMX)

    assert [each.status_code for each in responses] == [200, 200]
    assert responses[0].headers["X-Comment"] == responses[1].headers["X-Comment"]
    assert (other.status_code, texts()) == (409, ["Which one?"])
    # The next attempt has another key.
    assert 'hx-target="#key-new"' in other.content.decode()


def test_form_without_scripts_is_shown_again_with_its_text(answer: Message, as_bob: Client) -> None:
    response = as_bob.post(url_of("message_comments", answer), {"text": "Which one?"})

    assert response.status_code == 422
    assert "Which one?</textarea>" in response.content.decode()


@pytest.mark.parametrize(
    "field",
    [
        {"part": "a b"},
        {"start": "-1"},
        {"quote": "x" * 2001},
        {"text": "x" * 10_001},
        {"text": " "},
    ],
)
def test_hostile_form_is_refused(answer: Message, as_bob: Client, field: dict[str, str]) -> None:
    form = {"text": "Which one?", "key": str(uuid.uuid4()), **field}

    response = as_bob.post(url_of("message_comments", answer), form, headers=HTMX)

    assert (response.status_code, texts()) == (422, [])


def test_reply_reopens(begin: Begin, alice: User, bob: User) -> None:
    thread = begin(bob, "Which one?")
    actions.resolve(alice, thread)
    thread.refresh_from_db()
    assert thread.resolved_by == alice

    reply(bob, thread, "Still open.")

    thread.refresh_from_db()
    assert (thread.resolved_at, thread.resolved_by) == (None, None)


def test_reply_to_a_reply_is_in_its_thread(begin: Begin, alice: User, bob: User) -> None:
    thread = begin(bob, "Which one?")
    second = reply(alice, thread, "The long one.")

    third = reply(bob, access.get_comment(bob, second.public_id), "Thanks.")

    assert third.thread == thread


def test_first_comment_leaves_its_place_to_its_replies(
    begin: Begin, as_bob: Client, room: Room, alice: User, bob: User
) -> None:
    thread = begin(bob, "Which one?")
    answered = reply(alice, thread, "The long one.")

    actions.delete(thread)
    shown = as_bob.get(url_of("conversation_comments", room.conversation)).content.decode()
    left = texts()
    actions.delete(answered)

    assert left == ["", "The long one."]
    assert "This comment was deleted." in shown
    assert texts() == []


def test_what_was_deleted_meanwhile_is_refused(begin: Begin, alice: User, bob: User) -> None:
    thread = begin(bob, "Which one?")
    actions.delete(Comment.objects.get())

    for act in (lambda: reply(alice, thread, "Late"), lambda: actions.edit(thread, "Late")):
        with pytest.raises(ActionRefused):
            act()

    assert texts() == []


def test_comment_concerns_the_author_of_the_turn_and_of_the_thread_and_who_is_mentioned(
    room: Room, begin: Begin, alice: User, bob: User, viewer: User
) -> None:
    """Alice asked; Bob began the thread."""
    thread = begin(bob, "Which one?")
    own = begin(alice, "My own, @Vera.")

    assert told(thread) == [alice]
    assert told(own) == [viewer]
    assert told(reply(viewer, thread, "Which?")) == [alice, bob]
    assert told(reply(alice, thread, "That one.")) == [bob, viewer]

    actions.edit(own, "My own, @Vera and @Bob.")
    assert told(own) == [bob, viewer]


def told(comment: Comment) -> list[User]:
    return list(User.objects.filter(pk__in=comment.notices.values("person")).order_by("pk"))


# --- limits ---------------------------------------------------------------------------------------


def test_limits(begin: Begin, bob: User, alice: User, settings: object) -> None:
    cache.clear()
    settings.COMMENTS_PER_CONVERSATION, settings.COMMENTS_PER_MINUTE = 2, 3  # type: ignore[attr-defined]
    thread = begin(bob, "One")
    reply(bob, thread, "Two")

    for person, sentence in (
        (alice, "already has 2 comments"),
        (bob, "already has 2 comments"),
        (bob, "Too many comments"),
    ):
        with pytest.raises(ActionRefused, match=sentence):
            reply(person, thread, "Three")
    with pytest.raises(InvalidForm):
        actions.edit(thread, "  ")

    assert texts() == ["One", "Two"]


def test_key_of_another_text_is_refused(begin: Begin, bob: User, answer: Message) -> None:
    key = uuid.uuid4()
    actions.begin_thread(bob, answer, text="One", key=key)

    with pytest.raises(KeyReused):
        actions.begin_thread(bob, answer, text="Two", key=key)


# --- where they are, and are not ------------------------------------------------------------------


def test_model_never_gets_comments(room: Room, begin: Begin, bob: User) -> None:
    thread = begin(bob, "SECRET-NOTE", passage=Passage(part="x", quote="SECRET-QUOTE"))
    reply(bob, thread, "SECRET-REPLY")
    run = room.ask("And then?", below=thread.message)

    prompt = repr(prepare(run.pk))

    assert "Where does it begin?" in prompt
    assert "SECRET" not in prompt


def test_comments_are_in_json_exports(
    room: Room, begin: Begin, as_viewer: Client, bob: User, alice: User
) -> None:
    thread = begin(bob, "Which one?", passage=PASSAGE)
    reply(alice, thread, "The long one.")

    url = reverse("conversation_export", args=[room.conversation.public_id, "json"])
    body = content_of(as_viewer.get(url))

    first, second = json.loads(body)["comments"]
    assert (first["text"], first["quote"], first["author"]["email"]) == (
        "Which one?",
        "the spring",
        bob.email,
    )
    assert (second["thread"], second["turn"]) == (first["id"], first["turn"])


def test_comments_go_with_their_turn(begin: Begin, bob: User) -> None:
    thread = begin(bob, "Which one?")

    Message.objects.filter(pk=thread.message_id).delete()

    assert texts() == []


def test_author_who_is_gone_leaves_the_comment(
    begin: Begin, room: Room, as_alice: Client, bob: User
) -> None:
    begin(bob, "Which one?")
    bob.delete()

    page = as_alice.get(url_of("conversation_comments", room.conversation)).content.decode()

    assert "Which one?" in page
    assert "Deleted user" in page


def test_trashed_and_expired_conversations_have_no_comments(
    begin: Begin, room: Room, as_alice: Client, alice: User, bob: User
) -> None:
    thread = begin(bob, "Which one?")
    rows = Conversation.objects.filter(pk=room.conversation.pk)

    for change in (
        {"deleted_at": timezone.now()},
        {"deleted_at": None, "expires_at": timezone.now()},
    ):
        rows.update(**change)
        assert as_alice.get(url_of("conversation_comments", room.conversation)).status_code == 404
        assert as_alice.post(url_of("comment_delete", thread)).status_code == 404
        assert render_marks(room.conversation.public_id, [alice.pk]) == {}


# --- live -----------------------------------------------------------------------------------------


def test_look_makes_one_statement(begin: Begin, room: Room, bob: User) -> None:
    begin(bob, "Which one?")
    others = [uuid.uuid4() for _ in range(20)]
    here = room.conversation.public_id

    with CaptureQueriesContext(connection) as queries:
        found = VersionLook().read([here, here, *others])

    assert len(queries) == 1
    assert (found[here], found[others[0]]) == (1, 0)


def test_marks_are_for_those_who_read(
    begin: Begin, room: Room, alice: User, viewer: User, charlie: User, bob: User
) -> None:
    thread = begin(bob, "Which one?", passage=PASSAGE)
    people = [alice.pk, viewer.pk, charlie.pk]

    with CaptureQueriesContext(connection) as queries:
        marks = render_marks(room.conversation.public_id, people)

    assert len(queries) == 4
    assert set(marks) == {alice.pk, viewer.pk}
    (mark,) = marks[alice.pk].threads  # type: ignore[union-attr]
    assert (mark["id"], mark["quote"]) == (thread.public_id.hex, "the spring")
    assert "Which one?" not in repr(mark)


def test_page_offers_a_comment_on_each_turn(room: Room, begin: Begin, as_viewer: Client) -> None:
    page = room.page(as_viewer)

    actions = page.xpath("//article/footer/a[@data-comment]")
    assert [text_of(each) for each in actions] == ["Comment", "Comment"]
