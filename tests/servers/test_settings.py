"""Servers are added, changed, switched off, drained and deleted."""

from __future__ import annotations

import re
import uuid

import pytest
from django.test import Client
from django.urls import reverse

from chat.models import AuditEvent, Conversation, Message, Role, Run, RunStatus, Upstream, User
from chat.servers.actions import servers as actions
from tests.servers.conftest import FRAGMENT, form_of, page_of, url_of, verbs

NEW = {
    "name": "LM Studio on the desk",
    "dialect": "lmstudio",
    "base_url": "http://localhost:1234/",
    "concurrency_limit": 2,
    "typed_models": "my/model\n\n  other/model  \nmy/model",
}


def make_run(conversation: Conversation, upstream: Upstream, status: str) -> Run:
    answer = Message.objects.create(conversation=conversation, role=Role.ASSISTANT)
    return Run.objects.create(
        conversation=conversation,
        message=answer,
        upstream=upstream,
        model="demo/model",
        requested_by=conversation.owner,
        idempotency_key=uuid.uuid4(),
        status=status,
    )


def models_of(upstream: Upstream) -> list[str]:
    upstream.refresh_from_db()
    return [entry["id"] for entry in upstream.model_list]


# --- added -------------------------------------------------------------------------------------


def test_administrator_adds_a_server(admin_client: Client, administrator: User) -> None:
    response = admin_client.post(reverse("server_add"), NEW)

    upstream = Upstream.objects.get()
    assert response.headers["Location"] == url_of(upstream)
    assert upstream.base_url == "http://localhost:1234"
    assert upstream.concurrency_limit == 2
    assert upstream.is_enabled
    assert not upstream.has_key
    assert upstream.created_by == administrator
    assert [(entry["id"], entry["is_typed"]) for entry in upstream.model_list] == [
        ("my/model", True),
        ("other/model", True),
    ]
    assert verbs() == ["upstream.add"]


INVALID: list[tuple[str, object]] = [
    ("name", ""),
    ("name", "x" * 81),
    ("name", "Demo"),
    ("name", "  Demo "),
    ("dialect", "smoke-signals"),
    ("base_url", "http://user:secret@example.com"),
    ("base_url", "example.com"),
    ("key", "sk with spaces"),
    ("key", "sk\nInjected: header"),
    ("key", "schlüssel"),
    ("concurrency_limit", 0),
    ("concurrency_limit", "many"),
    ("typed_models", "x" * 201),
    ("typed_models", "\n".join(f"model-{number}" for number in range(201))),
]


def test_invalid_value_is_refused_beside_its_field(
    admin_client: Client, upstream: Upstream, subtests: pytest.Subtests
) -> None:
    for field, value in INVALID:
        with subtests.test(f"{field}: {value!r:.30}"):
            response = admin_client.post(reverse("server_add"), {**NEW, field: value})

            assert response.status_code == 422
            assert response.context["form"].errors.keys() == {field}
            assert Upstream.objects.count() == 1
            assert verbs() == []


def test_two_servers_added_at_once_cannot_share_a_name(
    administrator: User, upstream: Upstream
) -> None:
    settings = actions.ServerSettings(
        name=upstream.name, dialect="lmstudio", base_url="http://a.example", concurrency_limit=1
    )

    with pytest.raises(actions.ActionRefused, match="already has this name"):
        actions.add(administrator, settings)

    assert Upstream.objects.count() == 1


# --- changed -----------------------------------------------------------------------------------


def test_change_is_recorded_with_the_old_value(admin_client: Client, upstream: Upstream) -> None:
    admin_client.post(url_of(upstream), form_of(upstream, concurrency_limit=9))

    event = AuditEvent.objects.get()
    assert event.verb == "upstream.change"
    assert event.detail == {"concurrency_limit": {"from": 4, "to": 9}}


def test_unchanged_form_is_not_recorded(admin_client: Client, upstream: Upstream) -> None:
    admin_client.post(url_of(upstream), form_of(upstream))

    assert verbs() == []
    assert models_of(upstream) == ["demo/model"]


def test_typed_models_are_kept_apart_from_listed_ones(
    admin_client: Client, upstream: Upstream
) -> None:
    admin_client.post(url_of(upstream), form_of(upstream, typed_models="my/model\ndemo/model"))
    with_typed = models_of(upstream)
    admin_client.post(url_of(upstream), form_of(upstream, typed_models=""))

    assert with_typed == ["demo/model", "my/model"]
    assert models_of(upstream) == ["demo/model"]


def test_address_of_the_demo_cannot_be_changed(admin_client: Client, upstream: Upstream) -> None:
    Upstream.objects.filter(pk=upstream.pk).update(is_demo=True)
    form = form_of(upstream, base_url="http://evil.example", name="Renamed")

    admin_client.post(url_of(upstream), form)

    upstream.refresh_from_db()
    assert upstream.name == "Renamed"
    assert upstream.base_url == "http://127.0.0.1:9"


# --- options -----------------------------------------------------------------------------------


def test_options_of_the_dialect_are_stored(admin_client: Client) -> None:
    form = {
        **NEW,
        "dialect": "openai_chat",
        "option_inline_think": "off",
        "option_stream_options": "false",
        "option_replay_reasoning": "",
    }

    admin_client.post(reverse("server_add"), form)

    assert Upstream.objects.get().options == {"inline_think": "off", "stream_options": False}


def test_stored_option_is_shown(admin_client: Client) -> None:
    upstream = Upstream.objects.create(
        name="A",
        dialect="openai_chat",
        base_url="http://a.example",
        options={"stream_options": False},
    )

    assert '<option value="false" selected>Off</option>' in page_of(admin_client, upstream)


def test_unknown_choice_is_refused(admin_client: Client) -> None:
    form = {**NEW, "dialect": "openai_chat", "option_inline_think": "sometimes"}

    response = admin_client.post(reverse("server_add"), form)

    assert response.status_code == 422
    assert '<details class="options" open>' in response.content.decode()


def test_choosing_a_dialect_loads_its_help_and_options(admin_client: Client) -> None:
    known = admin_client.get(reverse("server_dialect"), {"dialect": "openai_chat"})
    unknown = admin_client.get(reverse("server_dialect"), {"dialect": "none"})

    page = known.content.decode()
    assert "/v1" in page
    assert 'name="option_inline_think"' in page
    assert unknown.status_code == 404


# --- switched off, drained, deleted ------------------------------------------------------------


def test_switching_is_recorded_once_per_change(admin_client: Client, upstream: Upstream) -> None:
    for wanted in ("false", "false", "true"):
        admin_client.post(url_of(upstream, "server_switch"), {"is_enabled": wanted})

    upstream.refresh_from_db()
    assert upstream.is_enabled
    assert verbs() == ["upstream.disable", "upstream.enable"]


def test_switch_answers_htmx_with_its_row(admin_client: Client, upstream: Upstream) -> None:
    response = admin_client.post(
        url_of(upstream, "server_switch"), {"is_enabled": "false"}, headers=FRAGMENT
    )

    page = response.content.decode()
    assert page.startswith("<li")
    assert 'aria-checked="false"' in page


def test_draining_is_recorded_once_per_change(admin_client: Client, upstream: Upstream) -> None:
    for wanted in ("true", "true", "false"):
        admin_client.post(url_of(upstream, "server_drain"), {"is_draining": wanted})

    upstream.refresh_from_db()
    assert not upstream.is_draining
    assert verbs() == ["upstream.drain", "upstream.resume"]


def test_pages_count_the_runs_of_a_draining_server(
    admin_client: Client, upstream: Upstream, conversation: Conversation, subtests: pytest.Subtests
) -> None:
    for status in (RunStatus.RUNNING, RunStatus.QUEUED, RunStatus.QUEUED):
        make_run(conversation, upstream, status)
    Upstream.objects.update(is_draining=True)

    for url in (reverse("servers"), url_of(upstream), reverse("server_states")):
        with subtests.test(url):
            text = without_tags(admin_client.get(url).content.decode())

            assert "Paused 1 active run, 2 queued" in text


def without_tags(page: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", "", page).split())


def test_deleting_a_server_keeps_its_answers(
    admin_client: Client, upstream: Upstream, conversation: Conversation
) -> None:
    run = make_run(conversation, upstream, RunStatus.COMPLETED)

    response = admin_client.post(url_of(upstream, "server_delete"))

    assert response.headers["Location"] == reverse("servers")
    run.refresh_from_db()
    assert run.upstream is None
    assert not Upstream.objects.exists()
    assert verbs() == ["upstream.delete"]


@pytest.mark.parametrize("status", [RunStatus.QUEUED, RunStatus.RUNNING])
def test_server_with_unfinished_runs_is_not_deleted(
    admin_client: Client, upstream: Upstream, conversation: Conversation, status: str
) -> None:
    make_run(conversation, upstream, status)

    response = admin_client.post(url_of(upstream, "server_delete"))

    assert response.status_code == 409
    assert "still has 1 active or queued run." in response.content.decode()
    assert Upstream.objects.exists()
    assert verbs() == []


# --- pages -------------------------------------------------------------------------------------


def test_list_shows_the_state_of_a_server(admin_client: Client, keyed: Upstream) -> None:
    keyed.probe = [{"name": "address", "label": "Address", "state": "failed", "text": "No."}]
    keyed.save()

    page = admin_client.get(reverse("servers")).content.decode()

    for text in ("Cellar", "OpenAI chat completions", "http://127.0.0.1:9/v1", "Set on", "Failed"):
        assert text in page


def test_empty_list_links_the_form(admin_client: Client) -> None:
    page = admin_client.get(reverse("servers")).content.decode()

    assert "No servers yet" in page
    assert reverse("server_add") in page


def test_server_of_an_unknown_dialect_is_shown(admin_client: Client) -> None:
    upstream = Upstream.objects.create(name="Old", dialect="gone", base_url="http://a.example")

    for url in (reverse("servers"), url_of(upstream)):
        assert "gone (not installed)" in admin_client.get(url).content.decode()


HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>'


def test_hostile_text_is_escaped_on_every_page(admin_client: Client) -> None:
    step = {"name": "a", "label": HOSTILE, "state": "failed", "text": HOSTILE, "detail": HOSTILE}
    upstream = Upstream.objects.create(
        name=HOSTILE[:80],
        dialect=HOSTILE[:40],
        base_url=HOSTILE,
        model_list=[{"id": HOSTILE, "label": HOSTILE, "detail": {HOSTILE: HOSTILE}}],
        probe=[step],
    )

    for url in (reverse("servers"), url_of(upstream), url_of(upstream, "server_delete")):
        page = admin_client.get(url).content.decode()
        assert "<script>alert" not in page
        assert "<img src=x" not in page
