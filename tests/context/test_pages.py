"""The gauge's figures, the panel, and the lines of a conversation about what models are sent."""

from __future__ import annotations

import io
import json
import uuid
from typing import Any

import pytest
from django.test import Client
from lxml import html

from chat.context.reading import chosen_model, read_context
from chat.imports.actions import import_file
from chat.models import (
    ContextStart,
    Conversation,
    Message,
    PersonalInstructions,
    Run,
    RunStatus,
    Team,
    User,
)
from chat.runs.prompt import prepare
from tests.imports.test_tributary import exported
from tests.support.rooms import HTMX, Room, queries_of, text_of, url_of

pytestmark = pytest.mark.databases(slow=True)

LINE = "//p[contains(@class, 'context-line')]"


@pytest.fixture
def last(room: Room) -> Message:
    """The third of three answers, of which the server has counted each."""
    answer = None
    for number, text in enumerate(("Where?", "When?", "How deep?"), start=1):
        answer = room.turn(text, below=answer)
        Run.objects.filter(message=answer).update(input_tokens=100 * number, output_tokens=10)
    assert answer is not None
    return answer


def question(answer: Message, above: int = 0) -> Message:
    message = answer.parent
    for _ in range(2 * above):
        assert message is not None
        message = message.parent
    assert message is not None
    return message


def figure(room: Room, client: Client) -> str:
    [element] = room.page(client).xpath("//*[@id='gauge-figures']")
    return str(element.get("value"))


def panel(room: Room, client: Client, query: str = "") -> html.HtmlElement:
    response = client.get(f"{url_of('conversation_context', room.conversation)}{query}")
    assert response.status_code == 200
    return html.fromstring(response.content.decode())


def choose(client: Client, room: Room, message: Message | None, **headers: Any) -> Any:
    start = message.public_id.hex if message else ""
    return client.post(url_of("context_start", room.conversation), {"start": start}, **headers)


def test_figure_is_that_of_what_is_sent(room: Room, last: Message, as_bob: Client) -> None:
    assert figure(room, as_bob) == "310"

    choose(as_bob, room, question(last, 1))
    # The server has not counted this part alone.
    assert figure(room, as_bob) == ""
    size = as_bob.get(url_of("context_size", room.conversation), headers=HTMX).json()
    assert 0 < size["tokens"] < 40

    prepare(room.ask("And now?", last).pk)
    run = room.runs[-1]
    Run.objects.filter(pk=run.pk).update(
        input_tokens=80, output_tokens=5, status=RunStatus.COMPLETED
    )
    assert figure(room, as_bob) == "85"

    choose(as_bob, room, None)
    assert figure(room, as_bob) == ""


def test_line_is_where_the_context_starts(
    room: Room, last: Message, as_alice: Client, as_viewer: Client
) -> None:
    choose(as_alice, room, question(last, 1))

    page = room.page(as_viewer)
    [line] = page.xpath(LINE)
    [turn] = line.xpath("ancestor::article")
    assert turn.get("data-number") == "2"
    assert text_of(line).startswith("The 2 messages above aren’t sent · Alice")
    assert "left out the messages before “When?”" in text_of(page)


def test_pages_get_the_lines_of_a_new_choice(
    room: Room, last: Message, as_alice: Client, as_bob: Client
) -> None:
    choose(as_alice, room, question(last))
    first = question(last, 2)
    headers = room.position(last, first=first)
    choose(as_alice, room, question(last, 1))

    patches = room.changes(as_bob, headers)

    # Where it was, and where it is now.
    above = [question(last, number).parent for number in (0, 1)]
    [was], [now] = ([text for _, text in patches.to(f"#a{each.public_id.hex}")] for each in above)
    assert "aren’t sent" not in was
    assert "The 2 messages above aren’t sent" in now
    assert "#gauge-figures" in patches.targets


def test_summary_has_its_line_when_it_is_complete(
    room: Room, last: Message, alice: User, as_alice: Client
) -> None:
    choose(as_alice, room, question(last, 1))
    form = room.form(key=uuid.uuid4(), parent=last)
    assert as_alice.post(url_of("context_summary", room.conversation), form).status_code == 302
    run = Run.objects.order_by("pk").last()
    assert run is not None
    assert "Summarize our conversation" in run.message.parent.text
    [line] = room.page(as_alice).xpath(LINE)
    assert "above aren’t sent" in text_of(line)

    Run.objects.filter(pk=run.pk).update(status=RunStatus.COMPLETED)

    [line] = room.page(as_alice).xpath(LINE)
    assert text_of(line).startswith("Later answers get this summary in place of the 6 earlier")


def test_panel_lists_what_is_sent_and_proposes(
    room: Room, last: Message, as_bob: Client, as_viewer: Client
) -> None:
    room.conversation.system_prompt = "Be <b>brief</b>."
    room.conversation.save()
    Message.objects.filter(pk=question(last, 2).pk).update(text="<i>Where?</i> " * 200)

    page = panel(room, as_bob, "?propose")

    assert "Be <b>brief</b>." in text_of(page)
    [checked] = page.xpath("//input[@type='radio'][@checked]/@value")
    assert checked == question(last, 1).public_id.hex
    assert len(page.xpath("//input[@type='radio']")) == 3
    # A reader changes nothing, and doesn't see the settings.
    page = panel(room, as_viewer)
    assert "brief" not in text_of(page)
    assert "<i>Where?</i>" in text_of(page)
    assert not page.xpath("//main//form[contains(@action, '/context/')]")


def test_long_conversation_is_listed_from_its_end(
    room: Room, last: Message, as_bob: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.context.reading.MOST_LISTED", 2)

    page = panel(room, as_bob)
    values = page.xpath("//input[@type='radio']/@value")
    assert values == ["", question(last).public_id.hex]
    assert "4 earlier messages" in text_of(page)
    choose(as_bob, room, question(last, 1))
    [checked] = panel(room, as_bob).xpath("//input[@type='radio'][@checked]/@value")
    assert checked == question(last, 1).public_id.hex


def test_nobody_sees_instructions_of_others(
    room: Room, last: Message, alice: User, bob: User
) -> None:
    PersonalInstructions.objects.create(user=alice, text="I row.", use="all")

    def texts(user: User) -> list[str]:
        return [each.text for each in read_context(user, room.conversation).head]

    assert texts(alice) == ["I row."]
    assert texts(bob) == []


def test_window_and_condensing_are_those_of_the_chosen_model(room: Room, alice: User) -> None:
    upstream = room.upstream
    upstream.model_list = [{"id": "large", "detail": {"context_length": 8000}}, {"id": "other"}]
    upstream.dialect = "openai_responses"
    upstream.save()
    value = f"{upstream.public_id.hex}:large"

    model = chosen_model(alice, room.conversation, value)

    assert (model.window, model.condense_above) == (8000, 6000)
    assert model.condense_field == "openai_responses-compact_threshold"
    assert chosen_model(alice, room.conversation, "no:such").window is None
    upstream.dialect = "openai_chat"
    upstream.save()
    assert chosen_model(alice, room.conversation, value).condense_field == ""


def test_conversation_without_choices_costs_no_query_more(
    room: Room, last: Message, as_bob: Client
) -> None:
    before = queries_of(as_bob, room.url)
    choose(as_bob, room, question(last))
    # The change that people read of, and what the last answer was sent.
    assert queries_of(as_bob, room.url) <= before + 2


def test_refusals_change_nothing(
    room: Room, last: Message, as_bob: Client, as_viewer: Client
) -> None:
    assert choose(as_viewer, room, question(last)).status_code == 403
    for message in (question(last, 2), last):
        assert choose(as_bob, room, message, headers=HTMX).status_code == 409
    run = room.ask("Then?", last)
    form = room.form(parent=run.message)
    response = as_bob.post(url_of("context_summary", room.conversation), form, headers=HTMX)
    assert response.status_code == 409
    assert not ContextStart.objects.exists()


def test_answer_that_was_too_long_offers_the_choices(
    room: Room, last: Message, as_bob: Client, as_viewer: Client
) -> None:
    failed = {"status": RunStatus.FAILED, "error_kind": "context_length"}
    Run.objects.filter(message=last).update(**failed)

    links = room.page(as_bob).xpath("//footer//a[contains(@href, '/context/')]")

    assert [text_of(link) for link in links] == ["Leave out older messages", "Summarize"]
    assert not room.page(as_viewer).xpath("//footer//a[contains(@href, '/context/')]")


def test_export_and_import_keep_the_choice(
    room: Room, last: Message, team: Team, alice: User, as_bob: Client
) -> None:
    choose(as_bob, room, question(last))
    choose(as_bob, room, question(last, 1))
    file = exported(alice, room.conversation)
    found = {turn["text"]: turn["context_start"] for turn in json.loads(file)["turns"]}
    assert found["Where?"] is None
    assert (found["How deep?"]["number"], found["When?"]["number"]) == (0, 1)
    assert found["When?"]["person"]["name"] == "Bob"

    import_file(alice, team, io.BytesIO(file))

    copy = Conversation.objects.exclude(pk=room.conversation.pk).get()
    kept = ContextStart.objects.filter(message__conversation=copy).order_by("pk")
    assert list(kept.values_list("message__text", "kind", "person")) == [
        ("How deep?", "dropped", None),
        ("When?", "dropped", None),
    ]
    assert read_context(alice, copy).first == 2
