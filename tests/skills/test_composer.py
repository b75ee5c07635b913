"""Skills in the menu of tools, in new conversations, and in presets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from lxml import html

from chat.access import get_conversation
from chat.conversations.composer import composer_context
from chat.models import (
    Conversation,
    Membership,
    Preset,
    Project,
    Skill,
    Team,
    Upstream,
    User,
)
from chat.presets.actions import Content, create_preset
from chat.presets.forms import entries_of
from chat.skills.actions import delete_skill
from tests.skills.helpers import make_skill
from tests.support.rooms import HTMX, Room, filled_form, get_page, url_of

pytestmark = pytest.mark.databases(only="sqlite")


@pytest.fixture
def skill(alice: User, team: Team) -> Skill:
    return make_skill(alice, team)


def menu(page: html.HtmlElement) -> list[tuple[str, bool]]:
    """The skills in the menu, and whether they are on."""
    found = []
    for box in page.xpath("//input[@name='skills'][@type='checkbox']"):
        (name,) = box.getparent().find_class("tool-row-name")
        found.append((name.text, "checked" in box.attrib))
    return found


def switched(client: Client, conversation: Conversation, **data: Any) -> Any:
    return client.post(url_of("conversation_tools", conversation), data, headers=HTMX)


def names_in(conversation: Conversation) -> list[str]:
    return sorted(conversation.skills.values_list("name", flat=True))


# --- conversations --------------------------------------------------------------------------------


def test_menu_has_the_skills_of_the_person_team_and_project(
    as_alice: Client, alice: User, as_bob: Client, conversation: Conversation, skill: Skill
) -> None:
    team = conversation.team
    project = Project.objects.create(team=team, name="Lock", created_by=alice)
    make_skill(alice, project, name="elsewhere")
    make_skill(alice, name="own")
    address = url_of("conversation", conversation)

    assert menu(get_page(as_alice, address)) == [("own", False), ("weekly-report", False)]
    assert menu(get_page(as_bob, address)) == [("weekly-report", False)]
    inside = Conversation.objects.create(team=team, owner=alice, project=project, title="Inside")
    page = get_page(as_alice, url_of("conversation", inside))
    assert [name for name, _ in menu(page)] == ["elsewhere", "own", "weekly-report"]
    Membership.objects.filter(user__name="Bob").update(role="guest")
    conversation.participants.create(person=User.objects.get(name="Bob"), role="writer")
    assert "weekly-report" not in get_page(as_bob, address).text_content()


def test_skills_are_switched_for_everybody(
    as_alice: Client, as_bob: Client, alice: User, conversation: Conversation, skill: Skill
) -> None:
    own = make_skill(alice, name="own")
    shown = [own.public_id, skill.public_id]

    response = switched(as_alice, conversation, skills=shown, shown_skills=shown)

    assert response.status_code == 200
    assert names_in(conversation) == ["own", "weekly-report"]
    page = get_page(as_bob, url_of("conversation", conversation))
    assert menu(page) == [("weekly-report", True)]
    # Bob's page does not have Alice's own skill, which stays.
    switched(as_bob, conversation, shown_skills=[skill.public_id])
    assert names_in(conversation) == ["own"]
    # Bob can't switch it either.
    refused = switched(as_bob, conversation, shown_skills=[own.public_id])
    assert (refused.status_code, names_in(conversation)) == (422, ["own"])
    # A page of an older version names none.
    switched(as_alice, conversation)
    assert names_in(conversation) == ["own"]


def test_menu_of_an_open_page_is_updated(room: Room, as_bob: Client, skill: Skill) -> None:
    mark = as_bob.get(room.url).context["tool_choice"].mark
    headers = room.position(room.turn("First"), tools=mark)

    switched(as_bob, room.conversation, skills=skill.public_id, shown_skills=skill.public_id)

    patches = room.changes(as_bob, headers)
    assert [words for _, words in patches.to("#tools-count")] == ["1"]
    assert "weekly-report" in patches.text("#tools-list")


def test_menu_with_a_person_s_own_skills_is_for_nobody_else(
    alice: User, bob: User, conversation: Conversation, skill: Skill
) -> None:
    def names_reader(person: User) -> bool:
        room = get_conversation(person, conversation.public_id, for_write=True)
        return bool(composer_context(person, room, None)["tool_choice"].names_reader)

    make_skill(alice, name="own")

    assert (names_reader(alice), names_reader(bob)) == (True, False)


def test_servers_without_tools_are_named(
    as_alice: Client, conversation: Conversation, skill: Skill
) -> None:
    Upstream.objects.create(name="Old", dialect="openai_completions", model_list=[{"id": "o"}])

    page = get_page(as_alice, url_of("conversation", conversation))

    (note,) = page.xpath("//p[@data-only-dialect='openai_completions']")
    assert "don’t support tools and skills" in note.text_content()


def test_new_conversation_begins_with_the_chosen_skills(
    as_alice: Client, alice: User, team: Team, upstream: Upstream, skill: Skill
) -> None:
    make_skill(alice, name="own")
    assert [name for name, _ in menu(get_page(as_alice, "/"))] == ["own", "weekly-report"]

    form = filled_form(upstream, team=team.public_id, skills=skill.public_id)
    response = as_alice.post(reverse("conversation_new"), form)

    assert response.status_code == 302
    conversation = Conversation.objects.latest("pk")
    assert names_in(conversation) == ["weekly-report"]
    (run,) = conversation.runs.all()
    assert [tool["name"] for tool in run.tools] == ["load_skill", "read_skill_file"]


def test_skill_of_somebody_else_starts_no_conversation(
    as_bob: Client, alice: User, team: Team, upstream: Upstream
) -> None:
    own = make_skill(alice, name="own")

    form = filled_form(upstream, team=team.public_id, skills=own.public_id)
    response = as_bob.post(reverse("conversation_new"), form)

    assert response.status_code == 422
    assert "One of these skills no longer exists." in response.content.decode()


# --- presets --------------------------------------------------------------------------------------


def chosen(client: Client, preset: Preset, **query: Any) -> html.HtmlElement:
    address = reverse("preset_choose", args=[preset.public_id])
    response = client.get(address, query, headers=HTMX)
    return html.fragment_fromstring(response.content.decode(), create_parent="div")


def problems(page: html.HtmlElement) -> list[str]:
    notes = page.xpath("//*[@data-into='preset-note']/p")
    return [" ".join(each.text_content().split()) for each in notes]


def test_preset_switches_skills_on_and_says_what_is_missing(
    as_alice: Client, as_bob: Client, alice: User, team: Team, upstream: Upstream, skill: Skill
) -> None:
    lost, own = make_skill(alice, team, name="lost"), make_skill(alice, name="own")
    content = Content(upstream=upstream, model="demo/model", skills=entries_of([skill, lost, own]))
    preset = create_preset(alice, team, name="Writer", content=content).preset
    delete_skill(alice, lost)

    page = chosen(as_bob, preset)

    (values,) = page.xpath("//*[@id='preset-name']/@data-preset")
    assert json.loads(values)["tools"] == [str(skill.public_id)]
    assert problems(page) == [
        "The skill lost was deleted.",
        "You can’t use the skill own here.",
    ]
    home = get_page(as_bob, f"/?preset={preset.public_id}")
    assert menu(home) == [("weekly-report", True)]
    # Without scripts the preset is chosen in the list of models.
    form = {
        **filled_form(upstream, team=team.public_id),
        "choice": f"preset:{preset.public_id}",
    }
    assert as_bob.post(reverse("conversation_new"), form).status_code == 302
    assert names_in(Conversation.objects.latest("pk")) == ["weekly-report"]
    versions = get_page(as_alice, reverse("preset_versions", args=[preset.public_id]))
    assert "Skills:\nweekly-report\nlost\nown" in versions.text_content()


def test_editor_offers_the_skills_that_all_of_a_place_can_use(
    as_alice: Client, alice: User, team: Team, upstream: Upstream, skill: Skill
) -> None:
    own = make_skill(alice, name="own")
    data = {
        "name": "Writer",
        "icon": "code",
        "choice": f"{upstream.public_id.hex}:demo/model",
        "skills": [own.public_id, skill.public_id],
    }

    as_alice.post(reverse("preset_new"), {**data, "place": f"team:{team.public_id}"})
    as_alice.post(reverse("preset_new"), data)

    for_team, for_alice = Preset.objects.order_by("pk")
    assert for_team.versions.get().skills == entries_of([skill])
    assert for_alice.versions.get().skills == entries_of([own, skill])
    page = get_page(as_alice, reverse("preset", args=[for_team.public_id]))
    assert page.xpath("//input[@name='skills']/@value") == [str(skill.public_id)]
    # What can't be switched on stays in it.
    Membership.objects.filter(user=alice).update(role="member")
    delete_skill(alice, skill)
    saved = {**data, "skills": [], "known": "1", "name": "New"}
    as_alice.post(reverse("preset", args=[for_team.public_id]), saved)
    assert for_team.versions.first().skills[0]["name"] == "weekly-report"


def test_settings_of_a_conversation_become_a_preset_with_its_skills(
    as_alice: Client, alice: User, team: Team, upstream: Upstream, skill: Skill
) -> None:
    conversation = Conversation.objects.create(team=team, owner=alice, title="Lock")
    conversation.skills.set([skill, make_skill(alice, name="own")])
    sent = {
        "choice": f"{upstream.public_id.hex}:demo/model",
        "conversation": str(conversation.public_id),
    }

    for name, place in (("Team", f"team:{team.public_id}"), ("Mine", "")):
        data = {**sent, "preset_name": name, "preset_place": place}
        assert as_alice.post(reverse("preset_save"), data, headers=HTMX).status_code == 200

    for_team, for_alice = Preset.objects.order_by("pk")
    names = [[each["name"] for each in p.versions.get().skills] for p in (for_team, for_alice)]
    assert names == [["weekly-report"], ["own", "weekly-report"]]
