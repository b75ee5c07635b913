"""Keys of servers: stored encrypted, bound to their address, shown nowhere."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from chat.core.encryption import DecryptionError
from chat.models import AuditEvent, Upstream
from tests.servers.conftest import CANARY, FRAGMENT, PlainServer, form_of, page_of, url_of
from tests.support.stored import everything_stored


def key_of(upstream: Upstream) -> str:
    return Upstream.objects.get(pk=upstream.pk).open_key()


def save(client: Client, upstream: Upstream, **changes: object) -> str:
    response = client.post(
        url_of(upstream, "server_settings"), form_of(upstream, **changes), follow=True
    )
    return response.content.decode()


def new_server(**fields: object) -> dict[str, object]:
    """The form of a server with a key."""
    form = {"name": "A", "dialect": "lmstudio", "base_url": "http://a.example", "key": CANARY}
    return {**form, "concurrency_limit": 1, "untested": "true", **fields}


# --- set, replaced, removed --------------------------------------------------------------------


def test_empty_field_keeps_the_key(admin_client: Client, keyed: Upstream) -> None:
    save(admin_client, keyed, name="Renamed", base_url="http://127.0.0.1:9/v2")

    assert key_of(keyed) == CANARY


def test_new_key_replaces_the_old_one(admin_client: Client, keyed: Upstream) -> None:
    save(admin_client, keyed, key=" sk-another-key ")

    assert key_of(keyed) == "sk-another-key"
    assert AuditEvent.objects.get().detail == {"key": "set"}


def test_checkbox_removes_the_key(admin_client: Client, keyed: Upstream) -> None:
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
def test_another_origin_removes_the_key(
    admin_client: Client, keyed: Upstream, address: str
) -> None:
    page = save(admin_client, keyed, base_url=address)

    assert key_of(keyed) == ""
    assert "The stored API key was removed" in page
    assert AuditEvent.objects.get().detail["key"] == "dropped: another address"


def test_new_key_for_a_new_address_is_stored(admin_client: Client, keyed: Upstream) -> None:
    page = save(admin_client, keyed, base_url="http://127.0.0.1:10/v1", key="sk-of-the-new-one")

    assert key_of(keyed) == "sk-of-the-new-one"
    assert "The stored API key was removed" not in page


def test_stale_form_does_not_restore_a_key(admin_client: Client, keyed: Upstream) -> None:
    stale = form_of(keyed, name="Renamed")
    save(admin_client, keyed, base_url="http://new.example/v1", key="sk-of-the-new-one")

    admin_client.post(url_of(keyed, "server_settings"), stale)

    assert Upstream.objects.get().base_url == "http://127.0.0.1:9/v1"
    assert key_of(keyed) == ""


# --- shown nowhere -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [{"name": "", "base_url": "x"}, {"key": f"{CANARY} {CANARY}"}],
    ids=["invalid form", "invalid key"],
)
def test_refused_form_does_not_show_the_key(
    admin_client: Client, fields: dict[str, object]
) -> None:
    response = admin_client.post(reverse("server_add"), new_server(**fields))

    assert response.status_code == 422
    assert CANARY not in response.content.decode()


def test_key_reaches_one_address_and_is_found_nowhere_else(
    admin_client: Client, plain_server: PlainServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    plain_server.status, plain_server.echoes_key = 401, True
    form = new_server(name="Echo", dialect="openai_chat", base_url=plain_server.url)
    pages = [admin_client.post(reverse("server_add"), form, follow=True)]
    upstream = Upstream.objects.get()

    for route in ("server_test", "server_models"):
        url = url_of(upstream, route)
        pages.append(admin_client.post(url, headers=FRAGMENT))
        pages.append(admin_client.post(url, follow=True))
    pages.append(admin_client.post(url_of(upstream, "server_switch"), {"is_enabled": "false"}))
    events = AuditEvent.objects.values_list("pk", flat=True)
    for url in (
        url_of(upstream),
        url_of(upstream, "server_settings"),
        url_of(upstream, "server_delete"),
        reverse("servers"),
        reverse("admin:index"),
        reverse("admin:chat_upstream_changelist"),
        reverse("admin:chat_upstream_change", args=[upstream.pk]),
        reverse("admin:chat_upstream_history", args=[upstream.pk]),
        reverse("admin:chat_auditevent_changelist"),
        *(reverse("admin:chat_auditevent_change", args=[event]) for event in events),
    ):
        pages.append(admin_client.get(url))

    assert f"Bearer {CANARY}" in plain_server.keys
    sealed = Upstream.objects.get().sealed_key
    for page in pages:
        assert CANARY not in page.content.decode()
        assert sealed not in page.content.decode()
        assert CANARY not in str(page.headers)
    assert CANARY not in everything_stored()
    assert CANARY not in caplog.text


def test_key_of_another_row_cannot_be_decrypted(keyed: Upstream) -> None:
    other = Upstream.objects.create(
        name="Other", dialect="lmstudio", base_url="http://a.example", sealed_key=keyed.sealed_key
    )

    with pytest.raises(DecryptionError) as error:
        other.open_key()

    assert CANARY not in repr(error.value)


def test_unreadable_key_is_reported(admin_client: Client, keyed: Upstream) -> None:
    Upstream.objects.update(sealed_key="damaged")

    page = admin_client.post(url_of(keyed, "server_test"), follow=True).content.decode()

    assert "The stored API key can’t be decrypted" in page


def test_dialect_menu_posts_the_form(admin_client: Client, keyed: Upstream) -> None:
    page = page_of(admin_client, keyed)

    select = page[page.index('<select name="dialect"') :]
    select = select[: select.index(">")]
    assert "hx-post=" in select
    assert "hx-get=" not in select


def test_only_the_modules_that_send_a_key_read_it() -> None:
    chat = Path(__file__).parents[2] / "chat"
    readers = {
        str(path.relative_to(chat))
        for path in chat.rglob("*.py")
        if "open_key()" in path.read_text(encoding="utf-8")
    }

    assert readers == {
        "artifacts/fetching.py",
        "runs/prompt.py",
        "servers/calls.py",
        "titles/requests.py",
    }
