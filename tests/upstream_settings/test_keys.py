from __future__ import annotations

import logging
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from chat.models import AuditEvent, Upstream
from chat.vault import VaultLocked
from tests.upstream_settings.conftest import CANARY, PlainServer, form_of


def everything_stored() -> str:
    """All rows of all tables, as text."""
    with connection.cursor() as cursor:
        rows = []
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT * FROM "{table}"')
            rows += cursor.fetchall()
    return repr(rows)


def key_of(upstream: Upstream) -> str:
    return Upstream.objects.get(pk=upstream.pk).open_key()


def save(client: Client, upstream: Upstream, **changes: object) -> str:
    response = client.post(
        reverse("server", args=[upstream.public_id]), form_of(upstream, **changes), follow=True
    )
    return response.content.decode()


def test_an_empty_field_keeps_the_key(admin_client: Client, keyed: Upstream) -> None:
    save(admin_client, keyed, name="Renamed", base_url="http://127.0.0.1:9/v2")

    assert key_of(keyed) == CANARY


def test_a_new_key_replaces_the_old_one(admin_client: Client, keyed: Upstream) -> None:
    save(admin_client, keyed, key=" sk-another-key ")

    assert key_of(keyed) == "sk-another-key"
    assert AuditEvent.objects.get().detail == {"key": "set"}


def test_the_checkbox_clears_the_key(admin_client: Client, keyed: Upstream) -> None:
    save(admin_client, keyed, clear_key="on")

    assert key_of(keyed) == ""
    assert Upstream.objects.get().key_set_at is None
    assert AuditEvent.objects.get().detail == {"key": "cleared"}


@pytest.mark.parametrize(
    "address",
    [
        "https://127.0.0.1:9/v1",
        "http://127.0.0.2:9/v1",
        "http://127.0.0.1:10/v1",
        "http://localhost:9/v1",
    ],
)
def test_another_scheme_host_or_port_drops_the_key_and_says_so(
    admin_client: Client, keyed: Upstream, address: str
) -> None:
    page = save(admin_client, keyed, base_url=address)

    assert key_of(keyed) == ""
    assert "The stored key was removed" in page
    assert AuditEvent.objects.get().detail["key"] == "dropped: another address"


def test_a_move_with_a_new_key_keeps_the_new_one(admin_client: Client, keyed: Upstream) -> None:
    page = save(admin_client, keyed, base_url="http://127.0.0.1:10/v1", key="sk-of-the-new-one")

    assert key_of(keyed) == "sk-of-the-new-one"
    assert "The stored key was removed" not in page


def test_a_form_opened_before_somebody_moved_the_server_cannot_bring_their_key_back(
    admin_client: Client, keyed: Upstream
) -> None:
    stale = form_of(keyed, name="Renamed")
    save(admin_client, keyed, base_url="http://new.example/v1", key="sk-of-the-new-one")

    admin_client.post(reverse("server", args=[keyed.public_id]), stale)

    assert Upstream.objects.get().base_url == "http://127.0.0.1:9/v1"
    assert key_of(keyed) == ""


def test_a_refused_form_does_not_show_the_key_again(admin_client: Client) -> None:
    form = {
        "name": "",
        "dialect": "lmstudio",
        "base_url": "x",
        "key": CANARY,
        "concurrency_limit": 1,
    }

    response = admin_client.post(reverse("server_add"), form)

    assert response.status_code == 422
    assert CANARY not in response.content.decode()


def test_a_key_that_is_refused_is_not_in_the_refusal(admin_client: Client) -> None:
    form = {
        "name": "A",
        "dialect": "lmstudio",
        "base_url": "http://a.example",
        "key": f"{CANARY} {CANARY}",
        "concurrency_limit": 1,
    }

    response = admin_client.post(reverse("server_add"), form)

    assert response.status_code == 422
    assert CANARY not in response.content.decode()


def test_the_key_reaches_one_address_and_is_found_nowhere_else(
    admin_client: Client,
    plain_server: PlainServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    plain_server.status, plain_server.echoes_key = 401, True
    form = {
        "name": "Echo",
        "dialect": "openai_chat",
        "base_url": plain_server.url,
        "key": CANARY,
        "concurrency_limit": 1,
    }
    pages = [admin_client.post(reverse("server_add"), form, follow=True)]
    upstream = Upstream.objects.get()
    args = [upstream.public_id]

    for route in ("server_test", "server_models"):
        pages.append(admin_client.post(reverse(route, args=args), headers={"HX-Request": "true"}))
        pages.append(admin_client.post(reverse(route, args=args), follow=True))
    pages.append(admin_client.post(reverse("server_switch", args=args), {"is_enabled": "false"}))
    pages += [admin_client.get(reverse(route, args=args)) for route in ("server", "server_delete")]
    pages += [
        admin_client.get(address)
        for address in (
            reverse("servers"),
            reverse("admin:index"),
            reverse("admin:chat_upstream_changelist"),
            reverse("admin:chat_upstream_change", args=[upstream.pk]),
            reverse("admin:chat_upstream_history", args=[upstream.pk]),
            reverse("admin:chat_auditevent_changelist"),
            *(
                reverse("admin:chat_auditevent_change", args=[event.pk])
                for event in AuditEvent.objects.all()
            ),
        )
    ]

    assert f"Bearer {CANARY}" in plain_server.keys
    for page in pages:
        assert CANARY not in page.content.decode()
        assert Upstream.objects.get().sealed_key not in page.content.decode()
        assert CANARY not in str(page.headers)
    assert CANARY not in everything_stored()
    assert CANARY not in caplog.text


def test_the_stored_key_of_another_row_cannot_be_opened(keyed: Upstream) -> None:
    other = Upstream.objects.create(
        name="Other", dialect="lmstudio", base_url="http://a.example", sealed_key=keyed.sealed_key
    )

    with pytest.raises(VaultLocked) as error:
        other.open_key()

    assert CANARY not in repr(error.value)


def test_a_key_that_cannot_be_read_any_more_is_said_in_words(
    admin_client: Client, keyed: Upstream
) -> None:
    Upstream.objects.update(sealed_key="damaged")

    page = admin_client.post(
        reverse("server_test", args=[keyed.public_id]), headers={"HX-Request": "true"}
    ).content.decode()

    assert "The stored key cannot be read" in page


def test_picking_a_dialect_sends_the_form_in_a_body_and_never_in_an_address(
    admin_client: Client, keyed: Upstream
) -> None:
    page = admin_client.get(reverse("server", args=[keyed.public_id])).content.decode()

    select = page[page.index('<select name="dialect"') :]
    select = select[: select.index(">")]
    assert "hx-post=" in select
    assert "hx-get=" not in select


def test_no_source_file_reads_a_key_but_the_three_that_send_it() -> None:
    chat = Path(__file__).parents[2] / "chat"
    readers = {
        str(path.relative_to(chat))
        for path in chat.rglob("*.py")
        if "open_key()" in path.read_text(encoding="utf-8")
    }

    assert readers == {"runs/prompt.py", "runs/mockups.py", "views/upstream_calls.py"}
