from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from lxml import html

from chat.live import cursor
from chat.models import Attempt, Conversation, Message, Run, Team, Upstream, User
from chat.views.transcript import PAGE_TURNS
from tests.views.conftest import HTMX, Room, address, end_run

SignIn = Callable[[User], Client]
HOSTILE = (
    "</hx-partial><script>alert(1)</script><img src=x onerror=alert(1) hx-get=/ >\" autofocus '"
)


def queries_of(client: Client, url: str) -> int:
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert client.get(url).status_code == 200
    return len(queries)


def page_of(client: Client, room: Room) -> html.HtmlElement:
    return html.fromstring(client.get(address("conversation", room.conversation)).content.decode())


def test_fifty_turns_cost_as_many_queries_as_two(as_alice: Client, room: Room, alice: User) -> None:
    url = address("conversation", room.conversation)
    answer = room.turn(alice, "First")
    few = queries_of(as_alice, url)
    for number in range(24):
        answer = room.turn(alice, f"Further {number}", answer)
    # As a fresh process sees it: no answer is kept yet.
    cursor._ended = cursor._Cache(cursor.CACHE_BYTES)

    many = queries_of(as_alice, url)

    assert many <= few + 1
    # What answers wait for, files and tools are a query each, however many there are.
    assert many <= 24


def test_a_long_list_costs_as_many_queries_as_a_short_one(
    as_alice: Client, room: Room, alice: User, team: Team
) -> None:
    url = reverse("conversation_list")
    few = queries_of(as_alice, url)
    Conversation.objects.bulk_create(
        Conversation(team=team, owner=alice, title=f"Number {number}") for number in range(40)
    )

    assert queries_of(as_alice, url) == few


def test_hostile_words_are_text_everywhere(as_alice: Client, room: Room, alice: User) -> None:
    answer = room.turn(alice, HOSTILE)
    Conversation.objects.update(title=HOSTILE, system_prompt=HOSTILE)
    Run.objects.update(model=HOSTILE[:200], error_message=HOSTILE, notes=[HOSTILE])
    User.objects.filter(pk=alice.pk).update(name=HOSTILE[:80])
    run = answer.runs.get()

    for url in (
        address("conversation", room.conversation),
        address("conversation_changes", room.conversation),
        address("message_edit", answer.parent),
        address("run_details", run),
        reverse("home"),
    ):
        page = html.fromstring(as_alice.get(url).content.decode())
        assert page.xpath("//script[not(@src)]") == []
        assert (
            page.xpath(
                "//img | //*[@onerror] | //*[@hx-get='/'] | //*[@autofocus and not(@id='text')]"
            )
            == []
        )


def test_no_page_carries_inline_script_or_style(as_alice: Client, room: Room, alice: User) -> None:
    run = room.turn(alice, "First").runs.get()

    for url in (
        reverse("home"),
        address("conversation", room.conversation),
        address("run_details", run),
    ):
        page = html.fromstring(as_alice.get(url).content.decode())
        assert page.xpath("//*[@style] | //style | //script[not(@src)]") == []
        assert [name for e in page.iter() for name in e.attrib if name.startswith("on")] == []


def test_ids_on_the_page_are_unique(as_alice: Client, room: Room, alice: User) -> None:
    room.turn(alice, "Second", room.turn(alice, "First"))

    ids = [element.get("id") for element in page_of(as_alice, room).xpath("//*[@id]")]

    assert len(ids) == len(set(ids))


def test_content_is_never_stored_by_a_cache(as_alice: Client, room: Room, alice: User) -> None:
    answer = room.turn(alice, "First")

    for url in (
        reverse("home"),
        reverse("conversation_list"),
        address("conversation", room.conversation),
        address("conversation_changes", room.conversation),
        address("message_source", answer),
        address("run_details", answer.runs.get()),
    ):
        assert "no-store" in as_alice.get(url).headers["Cache-Control"]


def test_a_viewer_gets_no_composer_and_no_actions_that_write(
    as_viewer: Client, room: Room, alice: User
) -> None:
    room.turn(alice, "First")

    page = page_of(as_viewer, room)

    assert page.xpath("//textarea | //form[contains(@action, '/retry/')]") == []
    assert (
        page.xpath("//a[contains(@href, '/edit/')] | //form[contains(@action, '/delete/')]") == []
    )
    assert "you can read along" in page.text_content()


def test_a_member_cannot_see_the_owners_switches(as_bob: Client, room: Room, alice: User) -> None:
    room.turn(alice, "First")

    page = page_of(as_bob, room)

    assert page.xpath("//form[contains(@action, '/rename/')]")
    assert (
        page.xpath("//form[contains(@action, '/visibility/') or contains(@action, '/delete/')]")
        == []
    )


def test_turns_are_articles_with_names_in_a_log_that_is_silent(
    as_alice: Client, room: Room, alice: User
) -> None:
    room.turn(alice, "First")

    page = page_of(as_alice, room)

    (log,) = page.xpath("//*[@role='log']")
    assert log.get("aria-live") == "off"
    names = [
        " ".join(page.get_element_by_id(turn.get("aria-labelledby")).text_content().split())
        for turn in page.xpath("//article")
    ]
    assert names == ["Message 1 by Alice", "Answer 2 by Demo model"]


def test_a_long_conversation_begins_with_its_last_page_and_shows_more_on_demand(
    as_alice: Client, room: Room, alice: User
) -> None:
    answer = None
    for number in range(PAGE_TURNS // 2 + 3):
        answer = room.turn(alice, f"Number {number}", answer)
    page = page_of(as_alice, room)
    (link,) = page.xpath("//*[@id='earlier']//a")

    earlier = html.fragment_fromstring(
        as_alice.get(link.get("href"), headers=HTMX).content.decode(), create_parent=True
    )

    assert len(page.xpath("//article")) == PAGE_TURNS
    assert len(earlier.xpath("//article")) == 6
    assert earlier.xpath("//*[@hx-target='#turns']/@hx-swap") == ["afterbegin"]
    assert earlier.xpath("//a[contains(@class, 'earlier')]") == []


def test_turns_before_one_that_is_not_on_the_path_do_not_exist(
    as_alice: Client, room: Room, alice: User
) -> None:
    one = room.turn(alice, "One")
    room.turn(alice, "Two")

    url = reverse("conversation_earlier", args=[room.conversation.public_id, one.public_id])

    assert as_alice.get(url).status_code == 404


def test_the_picker_lists_models_by_server_and_remembers_the_last_choice(
    as_alice: Client, room: Room, alice: User
) -> None:
    room.turn(alice, "First")
    Conversation.objects.update(model="acme/typed")

    page = page_of(as_alice, room)

    assert page.xpath("//optgroup/@label") == ["Demo"]
    assert page.xpath("//select[@name='choice']//option[@selected]/text()") == ["acme/typed"]
    assert page.xpath("//select[@name='choice']//option/@data-dialect") == ["lmstudio"] * 2


def test_embedding_models_cannot_be_chosen(as_alice: Client, room: Room, alice: User) -> None:
    room.turn(alice, "First")
    entries = [
        {"id": "m", "label": "M", "detail": {"type": "llm"}, "is_typed": False},
        {"id": "e", "label": "E", "detail": {"type": "embedding"}, "is_typed": False},
    ]
    Upstream.objects.update(model_list=entries)
    Conversation.objects.update(model="m")

    options = page_of(as_alice, room).xpath("//select[@name='choice']//option/text()")

    assert options == ["M"]


@pytest.mark.parametrize(
    ("enabled", "exists", "is_staff", "sentence"),
    [
        (True, False, False, "An administrator can add one"),
        (True, False, True, "Add an LM Studio or OpenAI-compatible server"),
        (False, True, False, "An administrator can switch one on"),
        (False, True, True, "Switch one on"),
    ],
)
def test_home_says_what_is_missing_and_who_can_mend_it(
    alice: User,
    team: Team,
    upstream: Upstream,
    signed_in: SignIn,
    enabled: bool,
    exists: bool,
    is_staff: bool,
    sentence: str,
) -> None:
    User.objects.filter(pk=alice.pk).update(is_staff=is_staff)
    if exists:
        Upstream.objects.update(is_enabled=enabled)
    else:
        Upstream.objects.all().delete()

    page = signed_in(alice).get(reverse("home")).content.decode()

    assert sentence in page
    assert "<textarea" not in page


def test_home_of_somebody_without_a_team_says_so(
    charlie: User, upstream: Upstream, signed_in: SignIn
) -> None:
    page = signed_in(charlie).get(reverse("home")).content.decode()

    assert "no team that you may write in" in page
    assert "<textarea" not in page


def test_home_shows_what_to_try_only_where_the_demo_answers(
    as_alice: Client, upstream: Upstream
) -> None:
    without = as_alice.get(reverse("home")).content.decode()
    Upstream.objects.update(is_demo=True)

    with_demo = as_alice.get(reverse("home")).content.decode()

    assert "Watch it think" not in without
    assert "Watch it think" in with_demo


def test_a_new_conversation_inherits_neither_system_prompt_nor_parameters(
    as_alice: Client, room: Room, alice: User
) -> None:
    room.turn(alice, "First")
    Conversation.objects.update(
        system_prompt="Speak like a pirate.", parameters={"temperature": 0.3}
    )

    page = html.fromstring(as_alice.get(reverse("home")).content.decode())

    assert page.xpath("string(//textarea[@name='system_prompt'])").strip() == ""
    assert page.xpath("//input[@name='lmstudio-temperature']/@value") == []


def test_a_live_answer_carries_its_cursor_and_a_stop_button(
    as_alice: Client, room: Room, alice: User
) -> None:
    run = room.ask(alice, "First")

    page = page_of(as_alice, room)

    (answer,) = page.xpath("//*[@data-live]")
    assert (answer.get("data-run"), answer.get("data-seq")) == (run.public_id.hex, "0")
    assert answer.get("aria-busy") == "true"
    assert page.xpath("//*[@data-stop]/@form") == ["stop-form"]
    assert page.xpath("//form[@id='stop-form']/@action") == [address("run_stop", run)]


def test_an_ended_answer_is_not_live(as_alice: Client, room: Room, alice: User) -> None:
    run = room.ask(alice, "First")
    end_run(run)

    page = page_of(as_alice, room)

    assert page.xpath("//*[@data-live] | //*[@aria-busy]") == []
    (answer,) = page.xpath("//*[@data-run]")
    assert answer.get("data-seq") == str(run.last_seq)


def test_the_details_show_the_course_the_events_and_no_replay_material(
    as_bob: Client, room: Room, alice: User
) -> None:
    run = room.ask(alice, "First")
    end_run(run)

    page = as_bob.get(address("run_details", run)).content.decode()

    assert "message.delta" in page
    assert "Total" in page
    assert "the result; its figures are above" in page


def test_the_details_say_in_words_what_went_wrong(as_bob: Client, room: Room, alice: User) -> None:
    run = room.ask(alice, "First")
    Run.objects.filter(pk=run.pk).update(
        status="failed",
        error_kind="not_found",
        error_message="No model river-9.",
        finished_at=run.queued_at,
        reasoning_tokens=0,
    )
    Attempt.objects.create(run=run, number=1, outcome="failed", error_kind="not_found")
    Attempt.objects.create(run=run, number=2, outcome="failed", error_kind="not_found")

    page = as_bob.get(address("run_details", run)).content.decode()

    assert page.count("The server does not have this model.") == 3
    assert "No model river-9." in page
    assert "not_found" not in page
    assert "for thinking" not in page
    assert "Total" not in page


def test_the_words_of_somebody_who_left_stay(as_bob: Client, room: Room, alice: User) -> None:
    room.turn(alice, "First")
    Message.objects.update(author=None)

    assert "Somebody who has left" in page_of(as_bob, room).text_content()
