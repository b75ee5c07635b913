"""The library of presets, their versions and defaults, and what the composer takes from one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from lxml import html

from chat.models import (
    AuditEvent,
    Conversation,
    DefaultPreset,
    Group,
    Preset,
    PresetVersion,
    Project,
    Run,
    Team,
    Tool,
    ToolServer,
    Upstream,
    User,
)
from chat.presets.actions import MOST_PRESETS, Content, create_preset, set_default
from chat.presets.forms import entries_of
from tests.support.rooms import HTMX, get_page

pytestmark = pytest.mark.databases(only="sqlite")

FIELDS = {
    "name": "Report writer",
    "icon": "pen-line",
    "system_prompt": "Write reports.",
    "lmstudio-temperature": "0.3",
    "starters": "Report on the lock\n\nReport on <b>the weir</b>\n",
    "control_0_name": "Thinking",
    "control_0_choices": "Low: reasoning = low\nHigh: Reasoning = high; temperature = 1",
}


@pytest.fixture
def tools(team: Team) -> list[Tool]:
    return [Tool.objects.create(team=team, name=name) for name in ("lookup", "weather")]


def posted(client: Client, route: str, *args: Any, **data: Any) -> Any:
    return client.post(reverse(route, args=args), data)


def form_of(page: html.HtmlElement, field: str) -> dict[str, list[str]]:
    """What the form with this field posts as it is shown."""
    (form,) = page.xpath(f"//form[.//*[@name='{field}']]")
    values: dict[str, list[str]] = {}
    for name, value in form.form_values():
        # The newline after the tag of a textarea is not part of its value.
        values.setdefault(name, []).append(value.removeprefix("\n"))
    return values


def choice_of(upstream: Upstream, model: str = "demo/model") -> str:
    return f"{upstream.public_id.hex}:{model}"


def make_writer(client: Client, upstream: Upstream, **more: Any) -> Preset:
    data = {**FIELDS, "choice": choice_of(upstream), **more}
    response = posted(client, "preset_new", **data)
    assert response.status_code == 302, response.content.decode()
    return Preset.objects.get()


def numbers(preset: Preset) -> list[int]:
    return list(preset.versions.values_list("number", flat=True))


def shown(page: html.HtmlElement) -> dict[str, Any]:
    """What the composer compares its fields with."""
    (name,) = page.xpath("//*[@id='preset-name']/@data-preset")
    values: dict[str, Any] = json.loads(name)
    return values


def chosen(client: Client, preset: Preset, **query: Any) -> html.HtmlElement:
    address = reverse("preset_choose", args=[preset.public_id])
    response = client.get(address, query, headers=HTMX)
    assert response.status_code == 200
    return html.fragment_fromstring(response.content.decode(), create_parent="div")


def problems(page: html.HtmlElement) -> list[str]:
    return [
        " ".join(each.text_content().split())
        for each in page.xpath("//*[@data-into='preset-note' or @id='preset-note']/p")
    ]


# --- the library ----------------------------------------------------------------------------------


def test_preset_is_made_and_shown(
    as_alice: Client, alice: User, upstream: Upstream, tools: list[Tool]
) -> None:
    writer = make_writer(as_alice, upstream, tools=[tools[0].public_id])

    version = writer.versions.get()
    assert (writer.owner, writer.name, version.number) == (alice, "Report writer", 1)
    assert version.content() == {
        "icon": "pen-line",
        "upstream_id": upstream.pk,
        "server_name": "Demo",
        "model": "demo/model",
        "parameters": {"temperature": 0.3},
        "system_prompt": "Write reports.",
        "tools": [{"id": str(tools[0].public_id), "name": "lookup"}],
        "skills": [],
        "starters": ["Report on the lock", "Report on <b>the weir</b>"],
        "controls": [
            {
                "name": "Thinking",
                "choices": [
                    {"label": "Low", "parameters": {"reasoning": "low"}},
                    {"label": "High", "parameters": {"reasoning": "high", "temperature": 1.0}},
                ],
            }
        ],
    }
    form = form_of(get_page(as_alice, reverse("preset", args=[writer.public_id])), "known")
    lines = ["Low: reasoning = low", "High: reasoning = high; temperature = 1.0"]
    assert form["control_0_choices"][0].split() == "\n".join(lines).split()
    # Saved as it is shown, it is no new version.
    assert posted(as_alice, "preset", writer.public_id, **form).status_code == 302
    assert numbers(writer) == [1]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"name": " "}, "required"),
        ({"choice": "0" * 32 + ":x"}, "no longer available"),
        ({"icon": "skull"}, "not one of the available choices"),
        ({"lmstudio-temperature": "hot"}, "Enter a number"),
        ({"starters": "a\n" * 7}, "up to six"),
        ({"control_0_name": ""}, "Enter a name"),
        ({"control_0_choices": "Low"}, "two to 8 choices"),
        ({"control_0_choices": "Low: color = red\nHigh:"}, "no parameter “color”"),
        ({"control_0_choices": "Low: reasoning = lots\nHigh:"}, "reasoning: Select a valid"),
        ({"control_0_choices": "Low\nHigh"}, "like this: Name: parameter = value"),
        ({"control_0_choices": "Low: \nLow: "}, "another name"),
        ({"control_1_name": "Thinking", "control_1_choices": "a:\nb:"}, "another name"),
    ],
)
def test_what_is_wrong_is_said(
    as_alice: Client, upstream: Upstream, fields: dict[str, str], sentence: str
) -> None:
    data = {**FIELDS, "choice": choice_of(upstream), **fields}
    response = posted(as_alice, "preset_new", **data)

    assert response.status_code == 422
    assert sentence in html.fromstring(response.content.decode()).text_content()
    assert not Preset.objects.exists()


def test_two_people_change_it(
    as_alice: Client, as_bob: Client, team: Team, upstream: Upstream
) -> None:
    writer = make_writer(as_alice, upstream, place=f"team:{team.public_id}")
    change = {**FIELDS, "choice": choice_of(upstream), "known": "1"}

    first = posted(as_bob, "preset", writer.public_id, **{**change, "system_prompt": "By Bob."})
    late = posted(
        as_alice, "preset", writer.public_id, **{**change, "system_prompt": "By <i>Alice</i>."}
    )

    assert (first.status_code, late.status_code) == (302, 422)
    assert "Bob changed this preset meanwhile" in late.content.decode()
    assert "By &lt;i&gt;Alice&lt;/i&gt;." in late.content.decode()
    assert numbers(writer) == [2, 1]
    page = get_page(as_alice, reverse("preset_versions", args=[writer.public_id]))
    (changes,) = page.find_class("text-changes")
    assert "By Bob." in changes.find_class("text-added")[0].text_content()
    assert "Write reports." in changes.find_class("text-removed")[0].text_content()
    assert posted(as_alice, "preset_use_version", writer.public_id, number="1").status_code == 302
    assert numbers(writer) == [3, 2, 1]
    assert writer.versions.first().content() == writer.versions.last().content()
    assert list(AuditEvent.objects.order_by("pk").values_list("verb", flat=True)) == [
        "preset.created",
        "preset.changed",
        "preset.changed",
    ]


def test_there_are_not_too_many(as_alice: Client, alice: User, upstream: Upstream) -> None:
    Preset.objects.bulk_create(Preset(owner=alice, name="x") for _ in range(MOST_PRESETS))

    response = posted(as_alice, "preset_new", **FIELDS, choice=choice_of(upstream))

    assert (response.status_code, PresetVersion.objects.exists()) == (422, False)
    assert "up to 200 presets" in response.content.decode()


def made(user: User, place: Any, upstream: Upstream, name: str = "Writer", **more: Any) -> Preset:
    content = Content(upstream=upstream, model="demo/model", **more)
    return create_preset(user, place, name=name, content=content).preset


def test_most_special_default_wins(
    as_alice: Client, alice: User, team: Team, upstream: Upstream
) -> None:
    project = Project.objects.create(team=team, name="Rivers", created_by=alice)
    of_team, of_project = made(alice, team, upstream, "T"), made(alice, project, upstream, "P")
    own = made(alice, None, upstream, "O")

    def begins_with(address: str = "/") -> list[str]:
        page = get_page(as_alice, address)
        names = page.xpath("//*[@id='preset-name']/span[1]")
        return [each.text_content() for each in names]

    in_project = f"/?project={project.public_id}"
    assert begins_with() == []
    set_default(alice, team, of_team)
    assert (begins_with(), begins_with(in_project)) == (["T"], ["T"])
    assert posted(as_alice, "preset_default", own.public_id, place="").status_code == 302
    assert (begins_with(), begins_with(in_project)) == (["O"], ["O"])
    set_default(alice, project, of_project)
    assert (begins_with(), begins_with(in_project)) == (["O"], ["P"])
    assert begins_with(f"/?preset={of_team.public_id}") == ["T"]
    assert posted(as_alice, "preset_no_default", own.public_id, place="").status_code == 302
    assert begins_with() == ["T"]
    # Others can't choose a personal preset, so they don't begin with it.
    posted(as_alice, "preset_default", own.public_id, place=f"team:{team.public_id}")
    assert DefaultPreset.objects.get(team=team).preset == of_team


def test_default_of_a_team_is_for_its_managers(
    as_bob: Client, alice: User, team: Team, upstream: Upstream
) -> None:
    writer = made(alice, team, upstream)

    refused = posted(as_bob, "preset_default", writer.public_id, place=f"team:{team.public_id}")

    assert (refused.status_code, DefaultPreset.objects.exists()) == (403, False)


# --- in the composer ------------------------------------------------------------------------------


def test_new_conversation_with_a_preset(
    as_alice: Client, alice: User, upstream: Upstream, tools: list[Tool]
) -> None:
    writer = make_writer(as_alice, upstream, tools=[tools[0].public_id])

    page = get_page(as_alice, f"/?preset={writer.public_id}")

    assert page.xpath("//select[@name='choice']/optgroup[1]/option/@value") == [
        f"preset:{writer.public_id}"
    ]
    assert page.xpath("//*[@data-starters='preset'][not(@hidden)]//a/@data-fill") == [
        "Report on the lock",
        "Report on <b>the weir</b>",
    ]
    assert page.xpath("//*[@data-starters='any' or @data-starters='demo'][not(@hidden)]") == []
    assert page.xpath("//select[@data-preset-control]/option/text()") == ["Low", "High", "Custom"]
    form = form_of(page, "text")
    assert shown(page)["fields"]["lmstudio-temperature"] == "0.3"
    assert form["lmstudio-temperature"] == ["0.3"]
    response = as_alice.post(reverse("conversation_new"), {**form, "text": "About the lock."})
    assert response.status_code == 302
    run = Run.objects.get()
    assert (run.model, run.system_prompt) == ("demo/model", "Write reports.")
    assert run.parameters["temperature"] == 0.3
    room = run.conversation
    assert (room.preset_version, list(room.tools.all())) == (writer.versions.get(), tools[:1])
    again = get_page(as_alice, reverse("conversation", args=[room.public_id]))
    assert shown(again)["choice"] == choice_of(upstream)


def test_without_scripts_a_preset_is_chosen_among_the_models(
    as_alice: Client, upstream: Upstream, tools: list[Tool]
) -> None:
    writer = make_writer(as_alice, upstream, tools=[tools[0].public_id])
    form = form_of(get_page(as_alice, "/"), "text")

    form |= {"text": "Hi", "choice": f"preset:{writer.public_id}", "lmstudio-temperature": "1"}
    assert as_alice.post(reverse("conversation_new"), form).status_code == 302

    run = Run.objects.get()
    assert (run.system_prompt, run.parameters["temperature"]) == ("Write reports.", 0.3)
    assert run.conversation.preset_version == writer.versions.get()
    assert list(run.conversation.tools.all()) == tools[:1]


def test_colleague_leaves_the_preset_that_they_may_not_choose(
    as_alice: Client, as_bob: Client, alice: User, upstream: Upstream, conversation: Conversation
) -> None:
    writer = make_writer(as_alice, upstream)
    Conversation.objects.update(preset_version=writer.versions.get(), upstream=upstream, model="m")
    address = reverse("conversation", args=[conversation.public_id])

    page = get_page(as_bob, address)
    assert "Report writer" not in html.tostring(page).decode()
    form = form_of(page, "text")
    send = reverse("conversation_send", args=[conversation.public_id])
    assert as_bob.post(send, {**form, "text": "Hi"}).status_code == 302

    conversation.refresh_from_db()
    assert conversation.preset_version == writer.versions.get()
    # Bob can't name it himself, either.
    own = {**form_of(get_page(as_bob, "/"), "text"), "preset": writer.versions.get().key}
    as_bob.post(reverse("conversation_new"), {**own, "text": "Mine"})
    assert Conversation.objects.latest("pk").preset_version is None
    assert as_bob.get(reverse("preset_choose", args=[writer.public_id])).status_code == 404


def test_what_cannot_be_used_is_said_and_kept(
    as_alice: Client, alice: User, bob: User, team: Team, upstream: Upstream, tools: list[Tool]
) -> None:
    server = ToolServer.objects.create(
        team=team, name="Gauges", address="http://x", is_for_groups=True
    )
    server.groups.set([Group.objects.create(team=team, name="Divers")])
    barred = Tool.objects.create(team=team, name="dive", server=server)
    gone = Upstream.objects.create(name="Gone", dialect="lmstudio", model_list=[{"id": "g"}])
    content = Content(
        upstream=gone,
        model="g",
        parameters={"temperature": 0.5, "color": "red"},
        system_prompt="Kept.",
        tools=entries_of([*tools, barred]),
    )
    preset = create_preset(alice, team, name="Old", content=content).preset
    tools[0].delete()
    now = {"choice": choice_of(upstream)}

    def said() -> list[str]:
        return problems(chosen(as_alice, preset, **now))

    rest = [
        "This model has no parameter color, which isn’t sent.",
        "The tool lookup was deleted.",
        "The tool dive is off, or you can’t use it here.",
    ]
    assert said() == rest
    gone.model_list = [{"id": "other"}]
    gone.save()
    assert said() == ["Gone doesn’t list g. If it was removed, choose another model.", *rest]
    Upstream.objects.filter(pk=gone.pk).update(is_enabled=False)
    assert said() == ["g on Gone isn’t available. Choose another model.", *rest]
    gone.delete()
    page = chosen(as_alice, preset, **now)
    first = "The server of this preset, Gone, was removed. Choose another model."
    assert problems(page) == [first, *rest]
    # The model stays, and so does all else of the preset.
    values = shown(page)
    assert (values["choice"], values["tools"]) == ("", [str(tools[1].public_id)])
    assert values["fields"]["choice"] == choice_of(upstream)
    assert values["fields"]["system_prompt"] == "Kept."
    assert values["fields"]["lmstudio-temperature"] == "0.5"
    editor = get_page(as_alice, reverse("preset", args=[preset.public_id]))
    assert "Gone" in editor.text_content()
    form = form_of(editor, "known") | {"choice": choice_of(upstream), "name": "New"}
    assert posted(as_alice, "preset", preset.public_id, **form).status_code == 302
    # What can't be turned on stays in it.
    assert [each["name"] for each in preset.versions.first().tools] == ["weather", "lookup", "dive"]


def test_settings_become_a_preset_and_a_new_version(
    as_alice: Client, alice: User, team: Team, upstream: Upstream, tools: list[Tool]
) -> None:
    sent = {
        "choice": choice_of(upstream),
        "system_prompt": "Short.",
        "tools": [tools[1].public_id],
        "preset_place": f"team:{team.public_id}",
    }
    save = reverse("preset_save")

    nameless = as_alice.post(save, sent, headers=HTMX)
    page = as_alice.post(save, {**sent, "preset_name": "Brief"}, headers=HTMX)
    parts = html.fragment_fromstring(page.content.decode(), create_parent="div")
    (key,) = parts.xpath("//input[@name='preset']/@value")
    updated = as_alice.post(save, {**sent, "system_prompt": "", "preset": key, "update": "1"})

    assert (nameless.status_code, page.status_code, updated.status_code) == (422, 200, 200)
    assert "Enter a name for the preset." in nameless.content.decode()
    brief = Preset.objects.get()
    assert (brief.team, brief.name, numbers(brief)) == (team, "Brief", [2, 1])
    assert [each.system_prompt for each in brief.versions.all()] == ["", "Short."]
    assert brief.versions.first().tools == entries_of(tools[1:])
    late = as_alice.post(save, {**sent, "preset": key, "update": "1"})
    assert (late.status_code, numbers(brief)) == (409, [2, 1])
    assert "Alice changed this preset meanwhile" in late.content.decode()
