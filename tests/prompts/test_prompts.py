"""The library of prompts: its pages, versions, people who change the same prompt, and what the composer inserts."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse
from lxml import html

from chat.models import AuditEvent, Prompt, PromptVersion, Team, User
from chat.prompts.actions import MOST_PROMPTS, create_prompt

pytestmark = pytest.mark.databases(only="sqlite")

TEXT = "Write to {{customer}} on {{day}}, {{tone}}."
SETTINGS = {
    "variable-day-kind": "date",
    "variable-tone-kind": "choice",
    "variable-tone-choices": "dry\n warm \n\ndry",
    "variable-tone-default": "warm",
}


def posted(client: Client, route: str, *args: Any, **data: Any) -> Any:
    return client.post(reverse(route, args=args), data)


def make_letter(client: Client, **more: str) -> Prompt:
    response = posted(client, "prompt_new", name="Letter", text=TEXT, **SETTINGS, **more)
    assert response.status_code == 302, response.content.decode()
    return Prompt.objects.get()


def texts(prompt: Prompt) -> list[tuple[int, str]]:
    return list(prompt.versions.values_list("number", "text"))


def inserted(client: Client, public_id: UUID, **values: str) -> tuple[str | None, Any]:
    """The inserted text, or ``None`` and the form that asks for values."""
    address = reverse("prompt_insert", args=[public_id])
    response = client.post(address, values) if values else client.get(address)
    page = html.fromstring(response.content.decode())
    found = page.xpath("descendant-or-self::textarea[@data-prompt-text]")
    return (found[0].text.removeprefix("\n"), page) if found else (None, page)


def test_prompt_with_variables(as_alice: Client, alice: User) -> None:
    letter = make_letter(as_alice)

    assert (letter.owner, letter.team) == (alice, None)
    assert letter.versions.get().variables == [
        {"name": "customer", "kind": "text", "default": "", "choices": []},
        {"name": "day", "kind": "date", "default": "", "choices": []},
        {"name": "tone", "kind": "choice", "default": "warm", "choices": ["dry", "warm"]},
    ]
    asked, form = inserted(as_alice, letter.public_id)
    assert asked is None
    assert [each.text_content().strip() for each in form.iter("label")] == [
        "customer (optional)",
        "day (optional)",
        "tone",
    ]
    wrong, _ = inserted(as_alice, letter.public_id, **{"value-1": "soon", "value-2": "dry"})
    assert wrong is None
    text, _ = inserted(
        as_alice,
        letter.public_id,
        **{"value-0": "<b>{{tone}}</b>", "value-1": "2026-11-30", "value-2": "dry"},
    )
    assert text == "Write to <b>{{tone}}</b> on Nov 30, 2026, dry."


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"variable-tone-kind": "choice"}, "Enter at least one choice."),
        ({"variable-day-kind": "date", "variable-day-default": "soon"}, "doesn’t fit the type"),
        ({"variable-tone-kind": "script"}, "not one of the available choices"),
        ({"name": "\u202e"}, "invisible characters"),
        ({"text": " ".join(f"{{{{v{n}}}}}" for n in range(31))}, "up to 30 variables"),
        ({"text": ""}, "required"),
    ],
)
def test_what_is_wrong_is_said(as_alice: Client, settings: dict[str, str], sentence: str) -> None:
    response = posted(as_alice, "prompt_new", **{"name": "Letter", "text": TEXT, **settings})

    assert response.status_code == 422
    assert sentence in response.content.decode()
    assert not Prompt.objects.exists()


def test_variables_are_shown_while_the_text_is_written(as_alice: Client) -> None:
    response = posted(as_alice, "prompt_variables", text="{{tone}} {{x", **SETTINGS)

    page = html.fromstring(response.content.decode())
    assert [each.text for each in page.find_class("code")] == ["tone"]
    assert page.xpath("//textarea[@name='variable-tone-choices']")[0].text.split() == [
        "dry",
        "warm",
    ]


def test_two_people_change_it(as_alice: Client, as_bob: Client, team: Team) -> None:
    letter = make_letter(as_alice, team=team.public_id.hex)
    change = {"name": "Letter", "known": "1", **SETTINGS}

    assert posted(as_bob, "prompt", letter.public_id, text="By Bob.", **change).status_code == 302
    late = posted(as_alice, "prompt", letter.public_id, text="By <i>Alice</i>.", **change)

    assert late.status_code == 422
    assert "Bob changed this prompt meanwhile" in late.content.decode()
    assert "By &lt;i&gt;Alice&lt;/i&gt;." in late.content.decode()
    assert texts(letter) == [(2, "By Bob."), (1, TEXT)]
    # Having seen that, she saves hers.
    again = posted(
        as_alice, "prompt", letter.public_id, text="By Alice.", **{**change, "known": "2"}
    )
    assert again.status_code == 302
    assert texts(letter)[0] == (3, "By Alice.")
    assert list(AuditEvent.objects.order_by("pk").values_list("verb", flat=True)) == [
        "prompt.created",
        "prompt.changed",
        "prompt.changed",
    ]


def test_versions_are_compared_and_used_again(as_alice: Client) -> None:
    letter = make_letter(as_alice)
    posted(as_alice, "prompt", letter.public_id, name="Letter", text="Other\n<b>", known="1")

    page = html.fromstring(
        as_alice.get(reverse("prompt_versions", args=[letter.public_id])).content
    )
    used = posted(as_alice, "prompt_use_version", letter.public_id, number="1")

    changes = page.find_class("text-changes")[0]
    assert "Other" in changes.find_class("text-added")[0].text_content()
    assert TEXT in changes.find_class("text-removed")[0].text_content()
    assert used.status_code == 302
    assert texts(letter) == [(3, TEXT), (2, "Other\n<b>"), (1, TEXT)]
    assert letter.versions.first().variables == letter.versions.last().variables
    assert posted(as_alice, "prompt_use_version", letter.public_id, number="9").status_code == 404


def test_same_text_is_no_version(as_alice: Client) -> None:
    letter = make_letter(as_alice)

    posted(as_alice, "prompt", letter.public_id, name="Mail", text=TEXT, known="1", **SETTINGS)

    letter.refresh_from_db()
    assert (letter.name, len(texts(letter))) == ("Mail", 1)


def test_find_names_that_begin_first(
    as_alice: Client, as_bob: Client, alice: User, team: Team
) -> None:
    create_prompt(alice, None, name="Answer <b>", text="a", variables=[])
    create_prompt(alice, team, name="Short answer", text="b", variables=[])

    def names(client: Client, words: str) -> list[str]:
        found = client.get(reverse("prompt_find"), {"q": words}).content.decode()
        page = html.fragment_fromstring(found, create_parent="div")
        return [each.text_content().strip() for each in page.find_class("completion-name")]

    assert names(as_alice, "ANS") == ["Answer <b>", "Short answer"]
    assert names(as_bob, "") == ["Short answer"]
    assert names(as_bob, "100%") == []


def test_there_are_not_too_many(as_alice: Client, alice: User) -> None:
    Prompt.objects.bulk_create(Prompt(owner=alice, name="x") for _ in range(MOST_PROMPTS))

    response = posted(as_alice, "prompt_new", name="Letter", text="x")

    assert (response.status_code, PromptVersion.objects.exists()) == (422, False)
    assert "up to 500 prompts" in response.content.decode()
