"""The form of a server has the options that its dialect declares; secret ones are never shown."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

import chat.dialects
from chat.conversations.actions.messages import ModelChoice, start_conversation
from chat.core.encryption import DecryptionError
from chat.dialects.parameters import Parameter
from chat.models import AuditEvent, Conversation, Team, Upstream, User
from chat.servers import option_fields
from chat.servers.actions import servers as actions
from chat.web import parameter_fields
from tests.servers.conftest import form_of, page_of, url_of

TOKEN = "hf-canary-81c4e0a7d2"
HEADERS = json.dumps({"Authorization": f"Bearer {TOKEN}"})

# All that a new dialect needs is this file in the package.
MODULE = """
from typing import ClassVar

from chat.dialects.base import Dialect
from chat.dialects.parameters import Parameter


class SmokeSignals(Dialect):
    name: ClassVar[str] = "smoke_signals"
    label: ClassVar[str] = "Smoke signals"
    help: ClassVar[str] = "Needs a hill."
    options: ClassVar = (
        Parameter(name="height", label="Height of the hill", kind="number", minimum=1, maximum=9),
        Parameter(name="puffs", label="Puffs", kind="integer", minimum=1, default=3),
        Parameter(name="inline_think", label="Thinking", kind="choice", choices=("off", "loud")),
        Parameter(name="is_damp", label="Damp wood", kind="boolean", default=True),
        Parameter(name="greeting", label="Greeting", kind="text", help="Said first."),
        Parameter(name="code_book", label="Code book", kind="lines", default="one\\ntwo"),
        Parameter(name="extras", label="Extras", kind="json"),
        Parameter(name="headers", label="Headers", kind="json", is_secret=True),
        Parameter(name="password", label="Password", kind="text", is_secret=True),
        Parameter(name="sealed_book", label="Sealed book", kind="lines", is_secret=True),
    )


dialect = SmokeSignals()
"""


@pytest.fixture
def smoke_signals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A dialect that is found by its file, as every other one."""
    (tmp_path / "smoke_signals.py").write_text(MODULE)
    monkeypatch.setattr(chat.dialects, "__path__", [*chat.dialects.__path__, str(tmp_path)])
    importlib.invalidate_caches()
    found = chat.dialects._discover()
    monkeypatch.setitem(chat.dialects.DIALECTS, "smoke_signals", found["smoke_signals"])
    yield
    sys.modules.pop("chat.dialects.smoke_signals", None)


@pytest.fixture
def signaller(db: None, smoke_signals: None) -> Upstream:
    upstream = Upstream(name="Hill", dialect="smoke_signals", base_url="http://127.0.0.1:9/v1")
    upstream.set_secret_options({"password": TOKEN, "headers": {"Authorization": TOKEN}})
    upstream.save()
    return upstream


def post(client: Client, upstream: Upstream, **changes: object) -> HttpResponse:
    return client.post(url_of(upstream, "server_settings"), form_of(upstream, **changes))


def save(client: Client, upstream: Upstream, **changes: object) -> None:
    response = post(client, upstream, **changes)
    assert response.status_code == 302, response.context["form"].errors
    upstream.refresh_from_db()


def test_texts_of_a_parameter_are_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(option_fields, "gettext", str.upper)
    monkeypatch.setattr(parameter_fields, "gettext_lazy", str.upper)
    parameter = Parameter(
        name="order",
        label="Order",
        kind="choice",
        choices=("by_name", "xyz"),
        choice_labels={"xyz": "By place"},
        help="Of the list.",
    )

    field = option_fields.option_field(parameter)

    assert (field.label, field.help_text) == ("ORDER", "OF THE LIST.")
    assert field.choices == [("", "DEFAULT"), ("by_name", "BY NAME"), ("xyz", "BY PLACE")]


def test_new_dialect_has_a_form_of_its_options(admin_client: Client, smoke_signals: None) -> None:
    answer = admin_client.get(reverse("server_dialect"), {"dialect": "smoke_signals"})
    page = answer.content.decode()

    assert "Needs a hill." in page
    for part in (
        'type="number" name="option_height" min="1" max="9"',
        'name="option_puffs" value="3" min="1"',
        '<select name="option_inline_think"',
        '<option value="loud">Loud</option>',
        "Default (On)",
        'type="text" name="option_greeting"',
        "Said first.",
        '<textarea name="option_code_book"',
        "one\ntwo",
        '<textarea name="option_extras"',
        '<textarea name="option_headers"',
        'type="password" name="option_password"',
        '<textarea name="option_sealed_book"',
    ):
        assert part in page
    add = admin_client.get(reverse("server_add"), {"kind": "other"}).content.decode()
    assert '<option value="smoke_signals" >Smoke signals</option>' in add


def test_options_are_stored_as_their_kind(admin_client: Client, signaller: Upstream) -> None:
    save(
        admin_client,
        signaller,
        option_height="2.5",
        option_puffs="4",
        option_inline_think="loud",
        option_is_damp="false",
        option_greeting="Hello there",
        option_code_book="  puff\r\n  puff puff\r\n",
        option_extras='{"wind": [1, null, true]}',
    )

    assert signaller.options == {
        "height": 2.5,
        "puffs": 4,
        "inline_think": "loud",
        "is_damp": False,
        "greeting": "Hello there",
        "code_book": "  puff\n  puff puff\n",
        "extras": {"wind": [1, None, True]},
    }


def test_unchanged_default_is_not_stored(admin_client: Client, signaller: Upstream) -> None:
    save(admin_client, signaller, option_puffs="3", option_code_book="one\r\ntwo")

    assert signaller.options == {}
    assert AuditEvent.objects.count() == 0


OUT_OF_BOUNDS = [
    ("height", "10", "less than or equal to 9"),
    ("puffs", "many", "whole number"),
    ("inline_think", "auto", "valid choice"),
    ("extras", '{"a": }', "Invalid JSON on line 1"),
    ("extras", '"text"', "JSON object"),
    ("extras", '{"a": NaN}', "a number that servers don’t accept"),
    ("extras", "[" * 15_000, "nested too deeply"),
    ("greeting", "x" * 501, "at most 500"),
    ("headers", "Authorization: x", "Invalid JSON on line 1"),
]


def test_invalid_option_is_refused_beside_its_field(
    admin_client: Client, signaller: Upstream, subtests: pytest.Subtests
) -> None:
    for name, value, words in OUT_OF_BOUNDS:
        with subtests.test(f"{name}: {value:.30}"):
            response = post(admin_client, signaller, **{f"option_{name}": value})

            assert response.status_code == 422
            assert words in str(response.context["form"].errors[f"option_{name}"])
            assert '<details class="options" open>' in response.content.decode()


def test_json_option_is_shown_as_json(admin_client: Client, signaller: Upstream) -> None:
    signaller.options = {"extras": {"wind": "west"}}
    signaller.save()

    assert "{\n  &quot;wind&quot;: &quot;west&quot;\n}" in page_of(admin_client, signaller)


def test_another_dialect_keeps_options_of_the_same_name(
    admin_client: Client, signaller: Upstream
) -> None:
    typed = {
        **form_of(signaller),
        "dialect": "openai_chat",
        "option_inline_think": "off",
        "option_greeting": "not known there",
        "key": TOKEN,
        "option_password": TOKEN,
    }
    address = reverse("server_dialect") + f"?server={signaller.public_id}"

    page = admin_client.post(address, typed).content.decode()

    assert '<option value="off" selected>Off</option>' in page
    assert "option_greeting" not in page
    assert TOKEN not in page


def test_dialect_of_an_unknown_server_is_404(admin_client: Client, smoke_signals: None) -> None:
    address = reverse("server_dialect") + "?server=00000000-0000-4000-8000-000000000000"

    assert admin_client.post(address, {"dialect": "openai_chat"}).status_code == 404


# --- secrets -----------------------------------------------------------------------------------


def test_secret_option_is_encrypted_and_never_shown(
    admin_client: Client, signaller: Upstream
) -> None:
    save(
        admin_client,
        signaller,
        option_headers=HEADERS,
        option_sealed_book=f"a\r\n{TOKEN}",
        clear_option_password="on",
    )

    assert TOKEN not in signaller.sealed_options
    assert signaller.options == {}
    assert signaller.all_options() == {
        "headers": {"Authorization": f"Bearer {TOKEN}"},
        "sealed_book": f"a\n{TOKEN}",
    }
    page = page_of(admin_client, signaller)
    assert TOKEN not in page
    assert page.count("A value is stored, encrypted") == 2
    assert TOKEN not in str(AuditEvent.objects.values_list("detail", flat=True))
    assert AuditEvent.objects.get().detail == {
        "secret_options_set": ["headers", "sealed_book"],
        "secret_options_removed": ["password"],
    }


def test_refused_form_does_not_show_its_secrets(admin_client: Client, signaller: Upstream) -> None:
    secrets = {"option_headers": HEADERS, "option_password": TOKEN, "key": TOKEN}

    response = post(admin_client, signaller, name="", **secrets)

    assert response.status_code == 422
    assert TOKEN not in response.content.decode()


def test_empty_secret_keeps_the_stored_one(admin_client: Client, signaller: Upstream) -> None:
    save(admin_client, signaller, option_password="another-secret")

    assert signaller.open_secret_options() == {
        "password": "another-secret",
        "headers": {"Authorization": TOKEN},
    }


def test_checkbox_removes_a_secret(admin_client: Client, signaller: Upstream) -> None:
    save(admin_client, signaller, clear_option_password="on")

    assert signaller.open_secret_options().keys() == {"headers"}
    assert AuditEvent.objects.get().detail == {"secret_options_removed": ["password"]}


def test_another_address_removes_the_secrets(admin_client: Client, signaller: Upstream) -> None:
    save(
        admin_client,
        signaller,
        base_url="http://evil.example/v1",
        option_password="a-new-one",
    )

    assert signaller.open_secret_options() == {"password": "a-new-one"}
    assert "The secret options were removed" in page_of(admin_client, signaller)


def test_another_dialect_removes_the_secrets(admin_client: Client, signaller: Upstream) -> None:
    save(admin_client, signaller, dialect="openai_chat")

    assert signaller.sealed_options == ""
    assert signaller.open_secret_options() == {}


def test_secrets_of_another_row_cannot_be_decrypted(
    signaller: Upstream, upstream: Upstream
) -> None:
    upstream.sealed_options = signaller.sealed_options

    with pytest.raises(DecryptionError):
        upstream.all_options()


def test_unreadable_secrets_can_be_entered_again(admin_client: Client, signaller: Upstream) -> None:
    signaller.sealed_options = "not to be opened"
    signaller.save()

    assert "never shown again" in page_of(admin_client, signaller)
    save(admin_client, signaller, option_password=TOKEN)

    assert signaller.open_secret_options() == {"password": TOKEN}


def test_repr_of_settings_has_no_secret(administrator: User) -> None:
    settings = actions.ServerSettings(
        name="A",
        dialect="lmstudio",
        base_url="http://a.example",
        concurrency_limit=1,
        secret_options={"password": TOKEN},
        key=TOKEN,
    )

    assert TOKEN not in repr(settings)


# --- default parameters ------------------------------------------------------------------------


def test_default_parameters_are_validated_and_stored(
    admin_client: Client, upstream: Upstream
) -> None:
    refused = post(admin_client, upstream, dialect="openai_chat", parameter_temperature="7")
    save(admin_client, upstream, dialect="openai_chat", parameter_temperature="0.5")

    assert refused.context["form"].errors.keys() == {"parameter_temperature"}
    assert upstream.parameters == {"temperature": 0.5}
    assert 'name="parameter_temperature" value="0.5"' in page_of(admin_client, upstream)


def test_default_parameters_yield_to_those_of_the_request(
    alice: User, team: Team, upstream: Upstream
) -> None:
    Upstream.objects.update(parameters={"temperature": 0.5, "max_output_tokens": 100})
    upstream.refresh_from_db()
    choice = ModelChoice(upstream=upstream, model="m", parameters={"temperature": 0.9})

    run = start_conversation(alice, team, text="Hi", choice=choice, idempotency_key=uuid4())

    assert run.parameters == {"temperature": 0.9, "max_output_tokens": 100}
    assert Conversation.objects.get().parameters == {"temperature": 0.9}
