"""Pages with feedback: what they show, to whom, how they hear of changes, and what they cost without any."""

from __future__ import annotations

import pytest
from django.core.cache import cache
from django.test import Client
from lxml import html

from chat.feedback import actions
from chat.models import Feedback, Message, User
from tests.support.rooms import HTMX, Room, get_page, queries_of, text_of, url_of

pytestmark = pytest.mark.databases(slow=True)

HOSTILE = '<script>alert(1)</script> "onclick=x {{ note }} ‮'


@pytest.fixture
def answer(room: Room) -> Message:
    return room.turn("Where does it begin?")


@pytest.fixture(autouse=True)
def no_earlier_ratings() -> None:
    cache.clear()


def line_of(page: html.HtmlElement, answer: Message) -> str:
    lines = page.xpath(f"//*[@id='a{answer.public_id.hex}']//a[@data-raters]")
    return text_of(lines[0]) if lines else ""


def test_readers_rate_and_everybody_sees_it(
    room: Room, answer: Message, as_viewer: Client, as_alice: Client, alice: User, viewer: User
) -> None:
    address = url_of("message_feedback", answer)
    sent = as_viewer.post(
        address, {"value": "-1", "bad": ["too_long", "other"], "good": ["correct"], "note": HOSTILE}
    )
    as_alice.post(address, {"value": "1", "note": ""})

    assert sent.status_code == 302
    page = get_page(as_alice, room.url)
    line = line_of(page, answer)
    assert f"Good answer: {alice.name}" in line
    assert f"Bad answer: {viewer.name} (with notes)" in line
    (raters,) = page.xpath("//@data-raters")
    keys = [user.public_id.hex[:8] for user in (viewer, alice)]
    assert raters == f"{keys[0]}- {keys[1]}+"
    shown = get_page(as_alice, address)
    (note,) = shown.xpath("//*[@class='feedback-note']")
    assert note.text == HOSTILE
    assert [
        text_of(each)
        for each in shown.xpath("//*[@class='feedback-row']/*[@class='feedback-chips']")
    ][1].split() == [
        *("Bad", "answer", "Too", "long", "Other"),
    ]
    # The form has what this person said, and nobody else's.
    assert shown.xpath("//input[@name='value'][@checked]/@value") == ["1"]
    assert text_of(shown.xpath("//textarea[@name='note']")[0]) == ""


def test_page_hears_of_a_rating(
    room: Room, answer: Message, as_alice: Client, viewer: User
) -> None:
    room.conversation.refresh_from_db()
    before = room.position(answer)
    actions.rate(viewer, answer, 1, (), "Right.")

    patches = room.changes(as_alice, before)

    assert patches.swaps(f"#a{answer.public_id.hex}") == ["outerHTML"]
    assert viewer.name in patches.text(f"#a{answer.public_id.hex}")
    room.conversation.refresh_from_db()
    later = room.position(answer)
    assert room.changes(as_alice, later).swaps(f"#a{answer.public_id.hex}") == []


def test_only_conversations_with_feedback_pay_a_query(
    room: Room, answer: Message, as_alice: Client, viewer: User
) -> None:
    queries_of(as_alice, room.url)
    before = queries_of(as_alice, room.url)
    actions.rate(viewer, answer, 1)

    assert queries_of(as_alice, room.url) == before + 1


def test_click_on_a_thumb_keeps_the_note(answer: Message, as_viewer: Client, viewer: User) -> None:
    address = url_of("message_feedback", answer)
    actions.rate(viewer, answer, 1, ["clear"], "Right.")

    form = as_viewer.post(address, {"value": "1"}, headers=HTMX)
    kept = Feedback.objects.get()
    as_viewer.post(address, {"value": "-1"}, headers=HTMX)

    assert "Right." in form.content.decode()
    assert (kept.value, kept.reasons, kept.note) == (1, ["clear"], "Right.")
    changed = Feedback.objects.get()
    assert (changed.value, changed.reasons, changed.note) == (-1, [], "")


def test_withdrawn_rating_is_no_longer_shown(
    room: Room, answer: Message, as_viewer: Client, as_alice: Client, viewer: User
) -> None:
    actions.rate(viewer, answer, 1)

    assert as_viewer.post(url_of("feedback_withdraw", answer)).status_code == 302

    assert line_of(get_page(as_alice, room.url), answer) == ""


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"note": "Right."}, "Choose whether the answer was good or bad."),
        ({"value": "2"}, "Choose whether the answer was good or bad."),
        ({"value": "1", "note": "x" * 2001}, "A note can have at most 2000 characters."),
        ({"value": "1", "good": ["nonsense"], "note": ""}, "nonsense"),
    ],
)
def test_refusal_says_why_and_keeps_the_form(
    answer: Message, as_viewer: Client, data: dict[str, object], words: str
) -> None:
    address = url_of("message_feedback", answer)

    page = as_viewer.post(address, data)
    patch = as_viewer.post(address, {**data, "place": "rating-note"}, headers=HTMX)

    assert (page.status_code, patch.status_code) == (422, 422)
    assert words in page.content.decode()
    assert words in patch.content.decode()
    assert 'hx-target="#rating-note"' in patch.content.decode()
    assert not Feedback.objects.exists()


def test_messages_of_people_have_no_feedback(answer: Message, as_alice: Client) -> None:
    assert answer.parent is not None
    address = url_of("message_feedback", answer.parent)

    assert as_alice.get(address).status_code == 404
    assert as_alice.post(address, {"value": "1", "note": ""}).status_code == 404


def test_choice_is_shown(room: Room, answer: Message, as_alice: Client, alice: User) -> None:
    actions.store_choice(alice, answer, [])

    assert f"Chosen among compared answers: {alice.name}" in line_of(
        get_page(as_alice, room.url), answer
    )


def test_many_raters_are_counted(room: Room, answer: Message, as_alice: Client) -> None:
    people = [User.objects.create(email=f"p{n}@example.org", name=f"P{n}") for n in range(5)]
    for person in people:
        actions.rate(person, answer, 1)

    assert "P0, P1, P2 and 2 others" in line_of(get_page(as_alice, room.url), answer)
