"""What a new conversation in a project begins with, and the settings that say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse
from lxml import html

from chat.conversations.actions.messages import ModelChoice, start_conversation
from chat.core.errors import ActionRefused
from chat.models import Conversation, DefaultPreset, Project, Team, Tool, Upstream, User, Visibility
from chat.presets.actions import Content, create_preset
from chat.projects.defaults_form import DefaultsForm
from tests.support.rooms import HTMX, filled_form, get_page

SignIn = Callable[[User], Client]


@pytest.fixture
def tools(team: Team) -> list[Tool]:
    return [Tool.objects.create(team=team, name=name) for name in ("lookup", "weather")]


@pytest.fixture
def project(team: Team, upstream: Upstream, tools: list[Tool]) -> Project:
    project = Project.objects.create(
        team=team,
        name="Rivers",
        upstream=upstream,
        model="demo/other",
        parameters={"temperature": 0.3},
    )
    project.tools.set(tools[:1])
    return project


def home_of(project: Project) -> str:
    return f"/?project={project.public_id}"


def field(page: html.HtmlElement, name: str) -> html.HtmlElement:
    (found,) = page.xpath(f"//form[@id='composer']//*[@name='{name}']")
    return found


def test_composer_shows_the_defaults(
    signed_in: SignIn, bob: User, project: Project, upstream: Upstream, tools: list[Tool]
) -> None:
    page = get_page(signed_in(bob), home_of(project))

    assert field(page, "choice").value == f"{upstream.public_id.hex}:demo/other"
    assert field(page, f"{upstream.dialect}-temperature").value == "0.3"
    assert field(page, "project").value == project.public_id.hex
    assert field(page, "visibility").value_options == ["project", "private"]
    assert page.xpath("//*[@name='tools'][@checked]/@value") == [str(tools[0].public_id)]


def test_without_defaults_it_offers_the_last_choice(
    signed_in: SignIn, bob: User, project: Project, upstream: Upstream, conversation: Conversation
) -> None:
    Project.objects.update(upstream=None)
    Conversation.objects.update(owner=bob, upstream=upstream, model="last/model")

    page = get_page(signed_in(bob), home_of(project))

    assert field(page, "choice").value == f"{upstream.public_id.hex}:last/model"


@pytest.mark.parametrize("visibility", ["project", "private", ""])
def test_conversation_starts_in_the_project(
    signed_in: SignIn, bob: User, project: Project, upstream: Upstream, visibility: str
) -> None:
    data = filled_form(
        upstream, team=project.team.public_id, project=project.public_id, visibility=visibility
    )

    response = signed_in(bob).post("/c/", data)

    room = Conversation.objects.get()
    assert response.status_code == 302
    assert (room.project, room.team, room.owner) == (project, project.team, bob)
    assert room.visibility == (visibility or Visibility.PROJECT)


@pytest.mark.parametrize(
    "fields", [{"visibility": "team"}, {"project": "", "visibility": "project"}]
)
def test_visibility_must_fit_the_project(
    signed_in: SignIn,
    bob: User,
    project: Project,
    upstream: Upstream,
    fields: dict[str, str],
) -> None:
    data = filled_form(upstream, team=project.team.public_id, project=project.public_id)

    response = signed_in(bob).post("/c/", {**data, **fields})

    assert (response.status_code, Conversation.objects.count()) == (422, 0)


@pytest.mark.parametrize(
    ("person", "status"),
    [("alice", 200), ("bob", 200), ("viewer", 403), ("dana", 404), ("charlie", 404)],
)
def test_only_writers_start_conversations(
    request: pytest.FixtureRequest,
    signed_in: SignIn,
    project: Project,
    upstream: Upstream,
    person: str,
    status: int,
) -> None:
    client = signed_in(request.getfixturevalue(person))
    data = filled_form(upstream, team=project.team.public_id, project=project.public_id)

    assert client.get(home_of(project)).status_code == status
    assert client.post("/c/", data).status_code == (302 if status == 200 else status)
    assert Conversation.objects.count() == (status == 200)


@pytest.mark.parametrize("public_id", ["x", "00000000-0000-0000-0000-000000000000"])
def test_unknown_project_is_not_found(signed_in: SignIn, bob: User, public_id: str) -> None:
    assert signed_in(bob).get(f"/?project={public_id}").status_code == 404


def test_message_to_a_deleted_project_says_so_and_keeps_the_draft(
    signed_in: SignIn, bob: User, project: Project, upstream: Upstream
) -> None:
    client = signed_in(bob)
    data = filled_form(upstream, team=project.team.public_id, project=project.public_id)
    data["text"] = "A long letter."
    Project.objects.filter(pk=project.pk).delete()

    page = client.post("/c/", data)
    patch = client.post("/c/", data, headers=HTMX).content.decode()

    assert page.status_code == 404
    assert "This project was deleted" in page.content.decode()
    assert "A long letter.</textarea>" in page.content.decode()
    assert "hx-partial" in patch
    assert "Your text is kept." in patch
    # It is deleted after the request has read it.
    choice = ModelChoice(upstream=upstream, model="demo/model")
    with pytest.raises(ActionRefused, match="This project was deleted"):
        start_conversation(bob, project, text="Hi", choice=choice, idempotency_key=uuid4())


# --- the settings ------------------------------------------------------------------------------


def settings_form(project: Project, upstream: Upstream, **data: Any) -> DefaultsForm:
    return DefaultsForm(data, project=project, upstreams=[upstream])


def test_settings_become_fields_of_the_project(
    project: Project, upstream: Upstream, tools: list[Tool]
) -> None:
    form = settings_form(
        project,
        upstream,
        choice=f"{upstream.public_id.hex}:demo/model",
        tools=[str(tools[1].public_id)],
        **{f"{upstream.dialect}-temperature": "0.7"},
    )

    assert form.is_valid()
    assert form.values() == {
        "upstream": upstream,
        "model": "demo/model",
        "parameters": {"temperature": 0.7},
        "tools": [tools[1]],
        "preset": None,
    }


def test_settings_may_name_no_model(project: Project, upstream: Upstream) -> None:
    form = settings_form(project, upstream, choice="")

    assert form.is_valid()
    assert form.values() == {
        "upstream": None,
        "model": "",
        "parameters": {},
        "tools": [],
        "preset": None,
    }


def test_preset_becomes_the_default(
    signed_in: SignIn, alice: User, project: Project, upstream: Upstream
) -> None:
    client, address = signed_in(alice), reverse("project_settings", args=[project.public_id])
    content = Content(upstream=upstream, model="demo/model", system_prompt="Write reports.")
    writer = create_preset(alice, project, name="Writer", content=content).preset
    create_preset(alice, None, name="Own", content=content)
    sent = {"name": project.name, "color": "gray", "access": "team"}

    options = get_page(client, address).xpath("//select[@name='choice']/optgroup[1]/option/text()")
    assert options == ["Writer"]
    client.post(address, {**sent, "choice": f"preset:{writer.public_id}"})

    project.refresh_from_db()
    assert (project.default_preset.preset, project.upstream) == (writer, None)
    page = get_page(client, address)
    assert page.xpath("//select[@name='choice']//option[@selected]/text()") == ["Writer"]
    assert (
        field(get_page(client, home_of(project)), "system_prompt").text.strip() == "Write reports."
    )
    client.post(address, {**sent, "choice": f"{upstream.public_id.hex}:demo/model"})
    project = Project.objects.get()
    assert (DefaultPreset.objects.count(), project.upstream) == (0, upstream)


@pytest.mark.parametrize(
    "data",
    [
        {"choice": "unknown:model"},
        {"tools": ["00000000-0000-0000-0000-000000000000"]},
    ],
)
def test_bad_settings_are_refused(
    project: Project, upstream: Upstream, data: dict[str, Any]
) -> None:
    form = settings_form(project, upstream, **data)

    assert not form.is_valid()
    assert form.first_error()


def test_settings_show_what_is_stored(
    project: Project, upstream: Upstream, tools: list[Tool]
) -> None:
    form = DefaultsForm(project=project, upstreams=[upstream])

    assert form["choice"].value() == f"{upstream.public_id.hex}:demo/other"
    assert form[f"{upstream.dialect}-temperature"].value() == 0.3
    assert form["tools"].value() == [tools[0].public_id]
