from __future__ import annotations

import re
import uuid

import pytest
from django.test import Client
from django.urls import reverse

from chat.actions import upstreams as actions
from chat.models import AuditEvent, Conversation, Message, Role, Run, RunStatus, Upstream, User
from tests.upstream_settings.conftest import form_of

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


def verbs() -> list[str]:
    return list(AuditEvent.objects.order_by("pk").values_list("verb", flat=True))


def test_an_administrator_adds_a_server(admin_client: Client, administrator: User) -> None:
    response = admin_client.post(reverse("server_add"), NEW)

    upstream = Upstream.objects.get()
    assert response.headers["Location"] == reverse("server", args=[upstream.public_id])
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


@pytest.mark.parametrize(
    ("field", "value"),
    [
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
    ],
)
def test_a_bad_value_is_refused_beside_its_field(
    admin_client: Client, upstream: Upstream, field: str, value: object
) -> None:
    response = admin_client.post(reverse("server_add"), {**NEW, field: value})

    assert response.status_code == 422
    assert response.context["form"].errors.keys() == {field}
    assert Upstream.objects.count() == 1
    assert verbs() == []


def test_two_servers_added_at_once_with_one_name_leave_one(
    administrator: User, upstream: Upstream
) -> None:
    settings = actions.ServerSettings(
        name=upstream.name, dialect="lmstudio", base_url="http://a.example", concurrency_limit=1
    )

    with pytest.raises(actions.ActionRefused, match="this name already"):
        actions.add(administrator, settings)

    assert Upstream.objects.count() == 1


def test_a_change_is_recorded_with_what_it_was_before(
    admin_client: Client, upstream: Upstream
) -> None:
    admin_client.post(
        reverse("server", args=[upstream.public_id]), form_of(upstream, concurrency_limit=9)
    )

    event = AuditEvent.objects.get()
    assert event.verb == "upstream.change"
    assert event.detail == {"concurrency_limit": {"from": 4, "to": 9}}


def test_saving_what_nobody_touched_records_nothing(
    admin_client: Client, upstream: Upstream
) -> None:
    admin_client.post(reverse("server", args=[upstream.public_id]), form_of(upstream))

    assert verbs() == []
    upstream.refresh_from_db()
    assert [entry["id"] for entry in upstream.model_list] == ["demo/model"]


def test_the_options_of_the_dialect_are_fields_and_are_stored(admin_client: Client) -> None:
    form = {
        **NEW,
        "dialect": "openai_chat",
        "option_inline_think": "off",
        "option_stream_options": "false",
        "option_replay_reasoning": "",
    }

    admin_client.post(reverse("server_add"), form)

    assert Upstream.objects.get().options == {"inline_think": "off", "stream_options": False}


def test_a_stored_option_is_shown_again(admin_client: Client) -> None:
    upstream = Upstream.objects.create(
        name="A",
        dialect="openai_chat",
        base_url="http://a.example",
        options={"stream_options": False},
    )

    page = admin_client.get(reverse("server", args=[upstream.public_id])).content.decode()

    assert '<option value="false" selected>Off</option>' in page


def test_an_option_that_is_no_choice_is_refused(admin_client: Client) -> None:
    form = {**NEW, "dialect": "openai_chat", "option_inline_think": "sometimes"}

    response = admin_client.post(reverse("server_add"), form)

    assert response.status_code == 422
    assert '<details class="options" open>' in response.content.decode()


def test_picking_a_dialect_fetches_its_help_and_options(admin_client: Client) -> None:
    response = admin_client.get(reverse("server_dialect"), {"dialect": "openai_chat"})

    page = response.content.decode()
    assert "/v1" in page
    assert 'name="option_inline_think"' in page
    assert admin_client.get(reverse("server_dialect"), {"dialect": "none"}).status_code == 404


def test_a_typed_name_goes_without_the_listed_ones(
    admin_client: Client, upstream: Upstream
) -> None:
    address = reverse("server", args=[upstream.public_id])
    admin_client.post(address, form_of(upstream, typed_models="my/model\ndemo/model"))

    upstream.refresh_from_db()
    assert [entry["id"] for entry in upstream.model_list] == ["demo/model", "my/model"]

    admin_client.post(address, form_of(upstream, typed_models=""))

    upstream.refresh_from_db()
    assert [entry["id"] for entry in upstream.model_list] == ["demo/model"]


def test_the_switch_is_recorded_once_for_each_change(
    admin_client: Client, upstream: Upstream
) -> None:
    address = reverse("server_switch", args=[upstream.public_id])

    for wanted in ("false", "false", "true"):
        admin_client.post(address, {"is_enabled": wanted})

    upstream.refresh_from_db()
    assert upstream.is_enabled
    assert verbs() == ["upstream.disable", "upstream.enable"]


def test_the_switch_answers_a_fragment_request_with_its_row(
    admin_client: Client, upstream: Upstream
) -> None:
    response = admin_client.post(
        reverse("server_switch", args=[upstream.public_id]),
        {"is_enabled": "false"},
        headers={"HX-Request": "true"},
    )

    page = response.content.decode()
    assert page.startswith("<li")
    assert 'aria-checked="false"' in page


def test_deleting_a_server_keeps_its_answers(
    admin_client: Client, upstream: Upstream, conversation: Conversation
) -> None:
    run = make_run(conversation, upstream, RunStatus.COMPLETED)

    response = admin_client.post(reverse("server_delete", args=[upstream.public_id]))

    assert response.headers["Location"] == reverse("servers")
    run.refresh_from_db()
    assert run.upstream is None
    assert not Upstream.objects.exists()
    assert verbs() == ["upstream.delete"]


@pytest.mark.parametrize("status", [RunStatus.QUEUED, RunStatus.RUNNING])
def test_a_server_with_answers_under_way_is_not_deleted(
    admin_client: Client, upstream: Upstream, conversation: Conversation, status: str
) -> None:
    make_run(conversation, upstream, status)

    response = admin_client.post(reverse("server_delete", args=[upstream.public_id]))

    assert response.status_code == 409
    assert "still has an answer to finish" in response.content.decode()
    assert Upstream.objects.exists()
    assert verbs() == []


def test_the_list_says_what_there_is_to_know(admin_client: Client, keyed: Upstream) -> None:
    keyed.probe = [{"name": "address", "label": "Address", "state": "failed", "text": "No."}]
    keyed.save()

    page = admin_client.get(reverse("servers")).content.decode()

    assert "Cellar" in page
    assert "OpenAI chat completions" in page
    assert "http://127.0.0.1:9/v1" in page
    assert "set on" in page
    assert "failed" in page


def test_an_empty_list_shows_the_way(admin_client: Client) -> None:
    page = admin_client.get(reverse("servers")).content.decode()

    assert "No server is set up yet" in page
    assert reverse("server_add") in page


def test_a_dialect_that_is_gone_does_not_break_the_pages(admin_client: Client) -> None:
    upstream = Upstream.objects.create(name="Old", dialect="gone", base_url="http://a.example")

    for address in (reverse("servers"), reverse("server", args=[upstream.public_id])):
        assert "gone (not installed)" in admin_client.get(address).content.decode()


def test_the_address_of_the_demo_cannot_be_changed(
    admin_client: Client, upstream: Upstream
) -> None:
    Upstream.objects.filter(pk=upstream.pk).update(is_demo=True)

    admin_client.post(
        reverse("server", args=[upstream.public_id]),
        form_of(upstream, base_url="http://evil.example", name="Renamed"),
    )

    upstream.refresh_from_db()
    assert upstream.name == "Renamed"
    assert upstream.base_url == "http://127.0.0.1:9"


HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>'


def test_hostile_text_is_text_on_every_page(admin_client: Client) -> None:
    upstream = Upstream.objects.create(
        name=HOSTILE[:80],
        dialect=HOSTILE[:40],
        base_url=HOSTILE,
        model_list=[{"id": HOSTILE, "label": HOSTILE, "detail": {HOSTILE: HOSTILE}}],
        probe=[
            {"name": "a", "label": HOSTILE, "state": "failed", "text": HOSTILE, "detail": HOSTILE}
        ],
    )

    for route in ("servers", "server", "server_delete"):
        args = [] if route == "servers" else [upstream.public_id]
        page = admin_client.get(reverse(route, args=args)).content.decode()
        assert "<script>alert" not in page
        assert "<img src=x" not in page


def test_draining_and_resuming_are_recorded_once_for_each_change(
    admin_client: Client, upstream: Upstream
) -> None:
    address = reverse("server_drain", args=[upstream.public_id])

    for wanted in ("true", "true", "false"):
        admin_client.post(address, {"is_draining": wanted})

    upstream.refresh_from_db()
    assert not upstream.is_draining
    assert verbs() == ["upstream.drain", "upstream.resume"]


@pytest.mark.parametrize("page", ["servers", "server", "server_states"])
def test_pages_say_what_a_drained_server_still_does(
    admin_client: Client, upstream: Upstream, conversation: Conversation, page: str
) -> None:
    make_run(conversation, upstream, RunStatus.RUNNING)
    for _ in range(2):
        make_run(conversation, upstream, RunStatus.QUEUED)
    Upstream.objects.update(is_draining=True)

    args = [upstream.public_id] if page == "server" else []
    words = without_tags(admin_client.get(reverse(page, args=args)).content.decode())

    assert "Draining 1 answer under way, 2 waiting" in words


def without_tags(page: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", "", page).split())
