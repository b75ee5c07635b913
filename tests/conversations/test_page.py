"""The page of a conversation and the home page: cost, safety, rights, and what they show."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse
from lxml import html

from chat.conversations.transcript import PAGE_TURNS
from chat.live import snapshot
from chat.models import (
    Attempt,
    Conversation,
    Membership,
    Message,
    Run,
    Team,
    TeamRole,
    Upstream,
    User,
)
from tests.support.rooms import HTMX, Room, end_run, get_page, queries_of, url_of

HOSTILE = (
    "</hx-partial><script>alert(1)</script><img src=x onerror=alert(1) hx-get=/ >\" autofocus '"
)


# --- cost -----------------------------------------------------------------------------------


def test_number_of_queries_does_not_grow_with_the_turns(as_alice: Client, room: Room) -> None:
    answer = room.turn("First")
    few = queries_of(as_alice, room.url)
    for number in range(24):
        answer = room.turn(f"Further {number}", answer)
    # A fresh process has no answers in its cache.
    snapshot._ended = snapshot._Cache(32 * 1024 * 1024)

    many = queries_of(as_alice, room.url)

    assert many <= few + 1
    # Questions, files and tools are a query each, however many there are.
    assert many <= 24


def test_number_of_queries_does_not_grow_with_the_list(
    as_alice: Client, room: Room, alice: User, team: Team
) -> None:
    url = reverse("conversation_list")
    few = queries_of(as_alice, url)
    Conversation.objects.bulk_create(
        Conversation(team=team, owner=alice, title=f"Number {number}") for number in range(40)
    )

    assert queries_of(as_alice, url) == few


# --- safety ---------------------------------------------------------------------------------


def test_hostile_text_is_escaped_everywhere(as_alice: Client, room: Room, alice: User) -> None:
    answer = room.turn(HOSTILE)
    Conversation.objects.update(title=HOSTILE, system_prompt=HOSTILE)
    Run.objects.update(model=HOSTILE[:200], error_message=HOSTILE, notes=[HOSTILE])
    User.objects.filter(pk=alice.pk).update(name=HOSTILE[:80])

    for url in (
        room.url,
        url_of("conversation_changes", room.conversation),
        url_of("message_edit", answer.parent),
        url_of("run_details", answer.runs.get()),
        reverse("home"),
    ):
        page = get_page(as_alice, url)
        assert page.xpath("//script[not(@src)] | //img | //*[@onerror] | //*[@hx-get='/']") == []
        assert page.xpath("//*[@autofocus and not(@id='text')]") == []


def test_pages_contain_no_inline_script_or_style(as_alice: Client, room: Room) -> None:
    run = room.turn("First").runs.get()

    for url in (reverse("home"), room.url, url_of("run_details", run)):
        page = get_page(as_alice, url)
        assert page.xpath("//*[@style] | //style | //script[not(@src)]") == []
        assert [name for e in page.iter() for name in e.attrib if name.startswith("on")] == []


def test_ids_on_the_page_are_unique(as_alice: Client, room: Room) -> None:
    room.turn("Second", room.turn("First"))

    ids = room.page(as_alice).xpath("//@id")

    assert len(ids) == len(set(ids))


def test_content_is_not_cached(as_alice: Client, room: Room) -> None:
    answer = room.turn("First")

    for url in (
        reverse("home"),
        reverse("conversation_list"),
        room.url,
        url_of("conversation_changes", room.conversation),
        url_of("message_source", answer),
        url_of("run_details", answer.runs.get()),
    ):
        assert "no-store" in as_alice.get(url).headers["Cache-Control"]


# --- rights ---------------------------------------------------------------------------------


def test_viewer_has_no_composer_and_no_actions(as_viewer: Client, room: Room) -> None:
    room.turn("First")

    page = room.page(as_viewer)

    assert page.xpath("//textarea | //a[contains(@href, '/edit/')]") == []
    assert page.xpath("//form[contains(@action, '/retry/') or contains(@action, '/delete/')]") == []
    assert "You have read-only access" in page.text_content()


def test_each_message_has_its_own_actions(as_alice: Client, as_viewer: Client, room: Room) -> None:
    first = room.turn("First")
    second = room.turn("Second", first)

    # Whatever was rendered for one reader is not shown to another.
    pages = [room.page(client) for client in (as_alice, as_viewer, as_alice)]

    messages = [first.parent, second.parent]
    edits, sources = (
        [url_of(route, message) for message in messages]
        for route in ("message_edit", "message_source")
    )
    for page, shown in zip(pages, (edits, [], edits), strict=True):
        turns = "//article[contains(@class, 'person-turn')]"
        assert page.xpath(f"{turns}//a[contains(@href, '/edit/')]/@href") == shown
        assert page.xpath(f"{turns}//@data-copy-source") == sources
        assert page.xpath(f"{turns}//footer//@hx-target")[-1] == f"#b{messages[-1].public_id.hex}"


def test_member_has_no_actions_of_the_owner(as_bob: Client, room: Room) -> None:
    room.turn("First")

    page = room.page(as_bob)

    owners = "//form[contains(@action, '/visibility/') or contains(@action, '/delete/')]"
    assert page.xpath("//form[contains(@action, '/rename/')]") == []
    assert page.xpath(owners) == []


def test_owner_who_may_only_read_is_offered_nothing_that_is_refused(
    as_alice: Client, alice: User, room: Room
) -> None:
    room.turn("First")
    Membership.objects.filter(user=alice).update(role=TeamRole.VIEWER)

    actions = room.page(as_alice).xpath("//div[@id='room-head']//form/@action")

    assert actions == [reverse("conversations_change", args=["pin"])]


# --- turns ----------------------------------------------------------------------------------


def test_turns_are_named_articles_in_a_silent_log(as_alice: Client, room: Room) -> None:
    room.turn("First")

    page = room.page(as_alice)

    (log,) = page.xpath("//*[@role='log']")
    assert log.get("aria-live") == "off"
    names = [
        " ".join(page.get_element_by_id(turn.get("aria-labelledby")).text_content().split())
        for turn in page.xpath("//article")
    ]
    assert names == ["Message 1 by Alice", "Answer 2 by Demo model"]


def test_long_conversation_loads_earlier_turns_on_demand(as_alice: Client, room: Room) -> None:
    answer = None
    for number in range(PAGE_TURNS // 2 + 3):
        answer = room.turn(f"Number {number}", answer)
    page = room.page(as_alice)
    (link,) = page.xpath("//*[@id='earlier']//a/@href")

    earlier = html.fragment_fromstring(
        as_alice.get(link, headers=HTMX).content.decode(), create_parent=True
    )

    assert len(page.xpath("//article")) == PAGE_TURNS
    assert len(earlier.xpath("//article")) == 6
    assert earlier.xpath("//*[@hx-target='#turns']/@hx-swap") == ["afterbegin"]
    assert earlier.xpath("//a[contains(@class, 'earlier')]") == []


def test_turns_before_one_of_another_branch_are_not_found(as_alice: Client, room: Room) -> None:
    one = room.turn("One")
    room.turn("Two")

    url = reverse("conversation_earlier", args=[room.conversation.public_id, one.public_id])

    assert as_alice.get(url).status_code == 404


def test_live_answer_has_a_cursor_and_a_stop_button(as_alice: Client, room: Room) -> None:
    run = room.ask("First")

    page = room.page(as_alice)

    (answer,) = page.xpath("//*[@data-live]")
    assert (answer.get("data-run"), answer.get("data-seq")) == (run.public_id.hex, "0")
    assert answer.get("aria-busy") == "true"
    assert page.xpath("//*[@data-stop]/@form") == ["stop-form"]
    assert page.xpath("//form[@id='stop-form']/@action") == [url_of("run_stop", run)]


def test_ended_answer_is_not_live(as_alice: Client, room: Room) -> None:
    run = room.ask("First")
    end_run(run)

    page = room.page(as_alice)

    assert page.xpath("//*[@data-live] | //*[@aria-busy]") == []
    (answer,) = page.xpath("//*[@data-run]")
    assert answer.get("data-seq") == str(run.last_seq)


def test_messages_of_a_deleted_person_stay(as_bob: Client, room: Room) -> None:
    room.turn("First")
    Message.objects.update(author=None)

    assert "Deleted user" in room.page(as_bob).text_content()


# --- models ---------------------------------------------------------------------------------

CHOICES = "//select[@name='choice']//option"


def test_models_are_grouped_by_server(as_alice: Client, room: Room) -> None:
    room.turn("First")
    Conversation.objects.update(model="acme/typed")

    page = room.page(as_alice)

    assert page.xpath("//optgroup/@label") == ["Demo"]
    assert page.xpath(f"{CHOICES}[@selected]/text()") == ["acme/typed"]
    assert page.xpath(f"{CHOICES}/@data-dialect") == ["lmstudio"] * 2


def test_models_that_cannot_chat_are_not_offered(as_alice: Client, room: Room) -> None:
    room.turn("First")
    kinds = {"M": "llm", "E": "embedding", "Jev": "decision", "Clef": "evaluation"}
    entries = [
        {"id": name.lower(), "label": name, "detail": {"type": kind}, "is_typed": False}
        for name, kind in kinds.items()
    ]
    Upstream.objects.update(model_list=entries)
    Conversation.objects.update(model="m")

    assert room.page(as_alice).xpath(f"{CHOICES}/text()") == ["M"]


def test_page_knows_what_models_can_take(as_alice: Client, room: Room) -> None:
    room.turn("First")
    details = {
        "openrouter": {"context_length": 131072},
        "google": {"inputTokenLimit": 1_048_576},
        "strange": {"context_length": "much", "max_model_len": -1},
        "silent": {},
    }
    entries = [{"id": name, "detail": detail} for name, detail in details.items()]
    Upstream.objects.update(model_list=entries, dialect="openai_completions")
    Conversation.objects.update(model="silent")

    options = room.page(as_alice).xpath(CHOICES)

    known = {
        option.get("value").partition(":")[2]: option.get("data-context") for option in options
    }
    assert known == {"openrouter": "131072", "google": "1048576", "strange": None, "silent": None}
    assert {(option.get("data-images"), option.get("data-tools")) for option in options} == {
        ("no", "no")
    }


# --- home -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exists", "is_staff", "sentence"),
    [
        (False, False, "Ask an administrator to add a server."),
        (False, True, "Add an LM Studio or OpenAI-compatible server"),
        (True, False, "Ask an administrator to enable a server."),
        (True, True, "Enable a server to start a conversation."),
    ],
)
def test_home_without_an_enabled_server_says_what_to_do(
    as_alice: Client, alice: User, upstream: Upstream, exists: bool, is_staff: bool, sentence: str
) -> None:
    User.objects.filter(pk=alice.pk).update(is_staff=is_staff)
    if exists:
        Upstream.objects.update(is_enabled=False)
    else:
        Upstream.objects.all().delete()

    page = as_alice.get(reverse("home")).content.decode()

    assert sentence in page
    assert "<textarea" not in page


def test_home_without_a_team_says_so(
    charlie: User, upstream: Upstream, signed_in: Callable[[User], Client]
) -> None:
    page = signed_in(charlie).get(reverse("home")).content.decode()

    assert "You’re not on a team yet" in page
    assert "<textarea" not in page


@pytest.mark.parametrize("page", ["tokens", "data", "project_new"])
def test_pages_say_why_there_is_no_team_to_write_in(
    page: str, charlie: User, as_viewer: Client, signed_in: Callable[[User], Client]
) -> None:
    def words(client: Client) -> str:
        return client.get(reverse(page)).content.decode()

    assert "You have read-only access" in words(as_viewer)
    assert "You’re not on a team yet. Ask a team owner" in words(signed_in(charlie))
    User.objects.filter(pk=charlie.pk).update(is_staff=True)
    assert "You’re not on a team yet. Create one" in words(signed_in(charlie))


def test_hiding_demo_servers_is_offered_below_a_good_answer(
    as_alice: Client, alice: User, room: Room
) -> None:
    User.objects.filter(pk=alice.pk).update(is_staff=True)
    Upstream.objects.create(
        name="Other",
        dialect="lmstudio",
        base_url="http://a",
        model_list=room.upstream.model_list,
        is_demo=True,
    )
    run = room.ask("First")

    def is_offered() -> bool:
        (place,) = room.page(as_alice).xpath("//*[@data-first-answer]")
        return "hidden" not in place.attrib

    assert not is_offered()
    end_run(run)
    assert is_offered()
    Run.objects.filter(pk=run.pk).update(status="failed")
    assert not is_offered()


def test_home_suggests_what_fits_the_chosen_model(as_alice: Client, upstream: Upstream) -> None:
    def shown() -> list[str]:
        return get_page(as_alice, reverse("home")).xpath(
            "//ul[@data-starters][not(@hidden)]/@data-starters"
        )

    assert shown() == ["any"]
    Upstream.objects.update(is_demo=True)
    assert shown() == ["demo"]


def test_home_goes_on_in_the_team_of_the_last_conversation(
    as_alice: Client, alice: User, conversation: Conversation, other_team: Team, upstream: Upstream
) -> None:
    def offered() -> list[str]:
        options = get_page(as_alice, reverse("home")).xpath("//select[@name='team']/option")
        return [each.text_content() for each in options]

    Membership.objects.create(team=other_team, user=alice, role=TeamRole.OWNER)
    assert offered() == ["Mountain", "River"]

    Conversation.objects.update(upstream=upstream)
    assert offered() == ["River", "Mountain"]


def test_home_tells_administrators_without_a_server_to_connect_one(
    as_alice: Client,
    signed_in: Callable[[User], Client],
    administrator: User,
    team: Team,
    upstream: Upstream,
) -> None:
    Membership.objects.create(user=administrator, team=team, role=TeamRole.MEMBER)
    hint = "Connect your first server"
    as_administrator = signed_in(administrator)
    assert hint not in as_administrator.get(reverse("home")).content.decode()

    Upstream.objects.update(is_demo=True)

    assert hint in as_administrator.get(reverse("home")).content.decode()
    assert hint not in as_alice.get(reverse("home")).content.decode()


def test_page_has_the_parameters_of_the_chosen_server_only(as_alice: Client, room: Room) -> None:
    room.turn("First")
    other = Upstream.objects.create(
        name="Other", dialect="anthropic_messages", base_url="http://127.0.0.1:9"
    )
    Conversation.objects.update(parameters={"temperature": 0.3})
    address = reverse("conversation_parameters")

    page = room.page(as_alice)
    fetched = get_page(
        as_alice,
        f"{address}?server={other.public_id.hex}&conversation={room.conversation.public_id.hex}",
    )

    assert page.xpath("//input[@name='lmstudio-temperature']/@value") == ["0.3"]
    assert page.xpath("//*[starts-with(@name, 'anthropic')]") == []
    assert fetched.xpath("//input[@name='anthropic_messages-temperature']/@value") == ["0.3"]
    assert fetched.xpath("//*[starts-with(@name, 'lmstudio')]") == []
    assert as_alice.get(address, {"server": "none"}).status_code == 404


def test_parameters_in_use_are_marked(as_alice: Client, room: Room) -> None:
    room.turn("First")
    mark = "//*[@id='parameters-mark'][not(@hidden)]"
    assert not room.page(as_alice).xpath(mark)

    Conversation.objects.update(parameters={"top_k": 7})

    assert room.page(as_alice).xpath(mark)


def test_disabled_server_stays_chosen_as_unavailable(
    as_alice: Client, room: Room, upstream: Upstream
) -> None:
    room.turn("First")
    Upstream.objects.create(
        name="Other",
        dialect="lmstudio",
        base_url="http://127.0.0.1:9",
        model_list=[{"id": "m", "label": "M", "detail": {}, "is_typed": False}],
    )
    # Nothing can be chosen of a server without models.
    Upstream.objects.create(name="Empty", dialect="lmstudio", base_url="http://127.0.0.1:9")
    Upstream.objects.filter(pk=upstream.pk).update(is_enabled=False)

    page = room.page(as_alice)

    groups = page.xpath("//select[@name='choice']/optgroup")
    assert [group.get("label") for group in groups] == ["Demo (unavailable)", "Other"]
    (chosen,) = page.xpath("//select[@name='choice']//option[@selected]")
    assert chosen.get("value") == f"{upstream.public_id.hex}:demo/model"
    assert "Choose another model" in page.xpath("string(//*[@id='unavailable-note'])")


def test_conversation_says_that_no_model_is_left(
    as_alice: Client, room: Room, upstream: Upstream
) -> None:
    room.turn("First")
    upstream.model_list[0]["is_off"] = True
    upstream.save()

    page = room.page(as_alice)

    (option,) = page.xpath("//select[@name='choice']//option")
    assert option.get("data-unavailable") is not None
    assert "No models available. Ask an administrator." in page.text_content()


def test_home_says_why_nothing_can_be_chosen(
    as_alice: Client,
    signed_in: Callable[[User], Client],
    administrator: User,
    team: Team,
    room: Room,
    upstream: Upstream,
    subtests: pytest.Subtests,
) -> None:
    Membership.objects.create(user=administrator, team=team, role=TeamRole.MEMBER)
    # The model of the person's last conversation is not offered again once it is disabled.
    room.turn("First")
    upstream.model_list[0]["is_off"] = True
    upstream.save()
    changes: tuple[tuple[dict[str, object], str], ...] = (
        ({}, "No models available"),
        ({"model_list": []}, "No models available"),
        ({"is_enabled": False}, "All servers are disabled"),
    )
    for change, heading in changes:
        with subtests.test(msg=heading):
            Upstream.objects.update(**change)

            pages = [
                get_page(each, reverse("home")) for each in (as_alice, signed_in(administrator))
            ]

            assert [page.xpath("string(//main//h1)").strip() for page in pages] == [heading] * 2
            links = [page.xpath("//main//a/@href") for page in pages]
            assert links == [[], [reverse("servers")]]
            assert not any(page.xpath("//textarea") for page in pages)


def test_new_conversation_inherits_no_parameters(as_alice: Client, room: Room) -> None:
    room.turn("First")
    Conversation.objects.update(
        system_prompt="Speak like a pirate.", parameters={"temperature": 0.3}
    )

    page = get_page(as_alice, reverse("home"))

    assert page.xpath("string(//textarea[@name='system_prompt'])").strip() == ""
    assert page.xpath("//input[@name='lmstudio-temperature']/@value") == []


def test_number_field_shows_numbers_only(as_alice: Client, room: Room) -> None:
    room.turn("First")
    Upstream.objects.update(dialect="openai_completions")
    # Log probabilities, as the chat API has them: on. Here the field asks for how many.
    Conversation.objects.update(parameters={"logprobs": True, "temperature": 0.3})

    page = get_page(as_alice, room.url)

    assert page.xpath("//input[@name='openai_completions-logprobs']/@type") == ["number"]
    assert page.xpath("//input[@name='openai_completions-logprobs']/@value") == []
    assert page.xpath("//input[@name='openai_completions-temperature']/@value") == ["0.3"]


# --- run details ----------------------------------------------------------------------------


def test_run_details_show_timeline_and_events(as_bob: Client, room: Room) -> None:
    run = room.ask("First")
    end_run(run)

    timeline, listed, usage = (
        as_bob.get(url_of("run_details", run), {"tab": tab}).content.decode()
        for tab in ("timeline", "events", "usage")
    )

    assert "Time since queued" in timeline
    assert "message.delta" in listed
    assert "the result; see Usage" in listed
    assert "Total" in usage


def test_run_details_explain_errors_in_words(as_bob: Client, room: Room) -> None:
    run = room.ask("First")
    Run.objects.filter(pk=run.pk).update(
        status="failed",
        error_kind="not_found",
        error_message="No model river-9.",
        finished_at=run.queued_at,
        reasoning_tokens=0,
    )
    Attempt.objects.create(run=run, number=1, outcome="failed", error_kind="not_found")
    Attempt.objects.create(run=run, number=2, outcome="failed", error_kind="not_found")

    page = as_bob.get(url_of("run_details", run)).content.decode()
    usage = as_bob.get(url_of("run_details", run), {"tab": "usage"}).content.decode()

    assert page.count("The server doesn’t have this model") == 3
    assert "No model river-9." in page
    assert "not_found" not in page
    assert "Thinking tokens" not in usage
    assert "Total" not in usage
