"""The buttons that ask a server: test the connection, load the models, apply advice."""

from __future__ import annotations

import json

import pytest
from django.test import Client
from django.utils import timezone

from chat.dialects import DIALECTS
from chat.dialects.event_counts import Seen
from chat.dialects.parameters import Parameter
from chat.models import AuditEvent, SeenEvent, Upstream, User
from chat.runs.seen_events import record_seen
from chat.servers.actions import servers as actions
from tests.servers.conftest import FRAGMENT, PlainServer, form_of, page_of, url_of


def make_server(base_url: str, dialect: str = "openai_chat", **columns: object) -> Upstream:
    return Upstream.objects.create(name="A", dialect=dialect, base_url=base_url, **columns)


@pytest.fixture
def demo(db: None, demo_server: str) -> Upstream:
    """The demo as a server of chat completions."""
    return make_server(f"{demo_server}/v1")


def press(client: Client, route: str, upstream: Upstream, **data: object) -> str:
    """Posts a button's form and reads the row anew; the page to which it leads."""
    page = client.post(url_of(upstream, route), data, follow=True).content.decode()
    upstream.refresh_from_db()
    return page


def models_of(upstream: Upstream) -> list[str]:
    return [entry["id"] for entry in upstream.model_list]


# --- the test of the connection ----------------------------------------------------------------


@pytest.mark.parametrize(("dialect", "path"), [("openai_chat", "/v1"), ("lmstudio", "")])
def test_connection_test_passes_all_steps(
    admin_client: Client, demo_server: str, dialect: str, path: str
) -> None:
    upstream = make_server(demo_server + path, dialect)

    page = press(admin_client, "server_test", upstream)

    takes_tools = dialect == "openai_chat"
    assert [(step["name"], step["state"]) for step in upstream.probe] == [
        ("address", "ok"),
        # Plain http works, and is not a tick.
        ("tls", "warning"),
        *((name, "ok") for name in ("key", "models", "answer")),
        ("tools", "ok" if takes_tools else "skipped"),
    ]
    assert upstream.probed_at is not None
    assert page.count('class="step step-ok"') == 4 + takes_tools
    assert page.count('class="step step-warning"') == 1
    assert AuditEvent.objects.get(verb="upstream.test").detail["steps"]["answer"] == "ok"


def test_models_of_a_passed_test_can_be_chosen_at_once(
    admin_client: Client, demo: Upstream
) -> None:
    press(admin_client, "server_test", demo)

    page = page_of(admin_client, demo, "server_models")
    assert "tributary/demo-writer" in models_of(demo)
    assert '<span class="model-name code">tributary/demo-writer</span>' in page


def test_connection_test_asks_the_chosen_model(admin_client: Client, demo: Upstream) -> None:
    press(admin_client, "server_models", demo)

    page = press(admin_client, "server_test", demo, model="tributary/demo-coder")

    assert "tributary/demo-coder streamed its answer" in page


def test_unlisted_model_is_not_asked(admin_client: Client, demo: Upstream) -> None:
    page = press(admin_client, "server_test", demo, model="../../etc/passwd")

    assert "passwd" not in page


def test_refused_connection_is_explained(admin_client: Client) -> None:
    page = press(admin_client, "server_test", make_server("http://127.0.0.1:9/v1"))

    assert "The connection was refused" in page
    assert "Check that the server is running and that the port is right" in page
    assert page.count("Not tested because an earlier step failed.") == 5


def test_forbidden_address_is_not_tried(admin_client: Client) -> None:
    page = press(admin_client, "server_test", make_server("http://169.254.169.254/v1"))

    assert 'class="step step-failed"' in page
    assert "UPSTREAM_PRIVATE_NETWORKS" in page


@pytest.mark.parametrize("route", ["server_test", "server_models"])
def test_unknown_dialect_is_explained(admin_client: Client, route: str) -> None:
    upstream = make_server("http://127.0.0.1:9", "gone")

    assert "API type is no longer supported" in press(admin_client, route, upstream)


def test_test_result_is_shown_again(admin_client: Client, demo: Upstream) -> None:
    press(admin_client, "server_test", demo)

    assert page_of(admin_client, demo, "server_diagnostics").count('class="step step-ok"') == 5


def test_another_address_discards_the_test_result(
    admin_client: Client, demo: Upstream, demo_server: str
) -> None:
    press(admin_client, "server_test", demo)

    admin_client.post(url_of(demo, "server_settings"), form_of(demo, base_url=demo_server))

    demo.refresh_from_db()
    assert demo.probe == []
    assert demo.probed_at is None


def test_result_for_an_old_address_is_not_stored(administrator: User, upstream: Upstream) -> None:
    Upstream.objects.filter(pk=upstream.pk).update(base_url="http://moved.example")
    steps = [{"name": "address", "label": "Address", "state": "ok"}]

    assert not actions.record_probe(administrator, upstream, steps)
    assert not actions.record_models(administrator, upstream, [{"id": "other"}])

    upstream.refresh_from_db()
    assert upstream.probe == []
    assert models_of(upstream) == ["demo/model"]


def test_test_leads_to_its_report_with_and_without_htmx(
    admin_client: Client, upstream: Upstream
) -> None:
    plain = admin_client.post(url_of(upstream, "server_test"))
    fragment = admin_client.post(url_of(upstream, "server_test"), headers=FRAGMENT)

    report = url_of(upstream, "server_diagnostics")
    assert plain.headers["Location"] == fragment.headers["HX-Redirect"] == report


# --- models ------------------------------------------------------------------------------------


def test_models_are_loaded_and_typed_ones_kept(admin_client: Client, demo: Upstream) -> None:
    typed = {"id": "my/model", "label": "my/model", "detail": {}, "is_typed": True}
    Upstream.objects.update(model_list=[typed])

    page = press(admin_client, "server_models", demo)

    assert models_of(demo)[-1] == "my/model"
    assert "tributary/demo-writer" in models_of(demo)
    assert demo.models_listed_at is not None
    assert "tributary/demo-writer" in page


def test_failed_list_keeps_the_old_one(admin_client: Client, upstream: Upstream) -> None:
    page = press(admin_client, "server_models", upstream)

    assert 'role="alert"' in page
    assert models_of(upstream) == ["demo/model"]


def test_empty_list_keeps_the_old_one(admin_client: Client, plain_server: PlainServer) -> None:
    upstream = make_server(plain_server.url, model_list=[{"id": "old", "label": "old"}])

    page = press(admin_client, "server_models", upstream)

    assert "model list is empty" in page
    assert models_of(upstream) == ["old"]


def test_size_of_the_model_list_is_limited(admin_client: Client, plain_server: PlainServer) -> None:
    models = [{"id": "big", "note": "y" * 10_000}]
    models += [{"id": f"model-{number}"} for number in range(1500)]
    models += [{"id": "x" * 300}]
    plain_server.body = json.dumps({"data": models}).encode()
    upstream = make_server(plain_server.url)

    press(admin_client, "server_models", upstream)

    assert len(upstream.model_list) == actions.MODEL_LIMIT
    assert upstream.model_list[0] == {"id": "big", "label": "big", "detail": {}, "is_typed": False}


def test_hostile_model_names_are_escaped(admin_client: Client, plain_server: PlainServer) -> None:
    hostile = "<script>alert(1)</script>"
    plain_server.body = json.dumps({"data": [{"id": hostile, "owned_by": hostile}]}).encode()
    upstream = make_server(plain_server.url)

    listed = press(admin_client, "server_models", upstream)
    tested = press(admin_client, "server_test", upstream)

    assert "&lt;script&gt;" in listed
    for page in (listed, tested, page_of(admin_client, upstream, "server_diagnostics")):
        assert hostile not in page


# --- what the test found -----------------------------------------------------------------------


ADVICE = {
    "target": "option",
    "name": "inline_think",
    "value": "assume_open",
    "label": "Thinking inside the text: assume_open",
    "reason": "The answer holds a closing tag that nothing opened.",
}


def with_advice(advice: dict[str, object], **columns: object) -> Upstream:
    step = {"name": "answer", "label": "Streamed answer", "state": "ok", "advice": [advice]}
    return make_server("http://127.0.0.1:9/v1", probe=[step], probed_at=timezone.now(), **columns)


def apply(client: Client, upstream: Upstream, name: str) -> str:
    url = url_of(upstream, "server_advice")
    page = client.post(url, {"advice": name}, follow=True).content.decode()
    upstream.refresh_from_db()
    return page


def test_report_shows_what_the_server_sends(admin_client: Client, demo: Upstream) -> None:
    page = press(admin_client, "server_test", demo)

    assert "text/event-stream" in page
    assert "[DONE]" in page
    facts = dict(demo.probe[4]["facts"])
    assert facts["Token counts"] == "once, in chunk: usage"
    assert facts["Unknown events"] == "none"


def test_events_of_the_test_are_counted_and_shown(admin_client: Client, demo: Upstream) -> None:
    tested = press(admin_client, "server_test", demo)

    assert SeenEvent.objects.get(upstream=demo, name="[DONE]").count == 2
    for page in (tested, page_of(admin_client, demo, "server_diagnostics")):
        assert "chunk: content" in page


def test_unknown_event_is_shown_with_its_sample(admin_client: Client, upstream: Upstream) -> None:
    hostile = '{"type": "<script>alert(1)</script>"}'
    record_seen(upstream.pk, [Seen(name="<img src=x>", count=1234, is_known=False, sample=hostile)])

    page = page_of(admin_client, upstream, "server_diagnostics")

    assert "&lt;img src=x&gt;" in page
    assert "1234" in page
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page


def test_advice_is_applied(admin_client: Client) -> None:
    upstream = with_advice(ADVICE, options={"stream_options": False})
    assert "Apply: Thinking inside the text" in page_of(
        admin_client, upstream, "server_diagnostics"
    )

    page = apply(admin_client, upstream, "inline_think")

    assert upstream.options == {"stream_options": False, "inline_think": "assume_open"}
    assert "Applied" in page
    assert "Apply: Thinking" not in page
    event = AuditEvent.objects.get()
    assert event.verb == "upstream.change"
    assert event.detail["options"]["to"]["inline_think"] == "assume_open"


def test_advice_can_change_the_dialect(admin_client: Client) -> None:
    upstream = with_advice({**ADVICE, "target": "dialect", "name": "dialect", "value": "lmstudio"})

    apply(admin_client, upstream, "dialect")

    assert (upstream.dialect, upstream.probe, upstream.probed_at) == ("lmstudio", [], None)


@pytest.mark.parametrize("name", ["", "stream_options", "dialect", "inline_think"])
def test_unknown_and_applied_advice_is_refused(admin_client: Client, name: str) -> None:
    upstream = with_advice({**ADVICE, "is_taken": True})

    page = apply(admin_client, upstream, name)

    assert upstream.options == {}
    assert "out of date" in page
    assert not AuditEvent.objects.exists()


# --- secret options ----------------------------------------------------------------------------


def test_secret_options_are_sent_and_never_shown(
    admin_client: Client, plain_server: PlainServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = "hf-canary-9b1f22c07d"
    dialect = type(DIALECTS["openai_chat"])
    options = (Parameter(name="pass", label="Pass", kind="text", is_secret=True),)
    monkeypatch.setattr(dialect, "options", options)
    monkeypatch.setattr(
        dialect,
        "headers",
        lambda self, key, options=None: {"X-Pass": str((options or {}).get("pass"))},
    )
    plain_server.body = json.dumps({"error": {"message": f"no entry with {token}"}}).encode()
    plain_server.status = 401
    upstream = make_server(plain_server.url)
    upstream.set_secret_options({"pass": token})
    upstream.save()

    page = press(admin_client, "server_test", upstream)
    listed = press(admin_client, "server_models", upstream)

    assert plain_server.passes == [token, token]
    assert token not in page + listed + json.dumps(upstream.probe)
    assert "no entry with [redacted]" in page


def test_unreadable_secret_options_are_explained(admin_client: Client, upstream: Upstream) -> None:
    Upstream.objects.filter(pk=upstream.pk).update(sealed_options="nonsense")
    upstream.refresh_from_db()

    assert "Enter them again and save" in press(admin_client, "server_test", upstream)
