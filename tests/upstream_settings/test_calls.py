from __future__ import annotations

import json

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat.actions import upstreams as actions
from chat.actions.seen import record_seen
from chat.dialects import DIALECTS
from chat.dialects.base import Parameter
from chat.dialects.seen import Seen
from chat.models import AuditEvent, SeenEvent, Upstream, User
from tests.upstream_settings.conftest import PlainServer

FRAGMENT = {"HX-Request": "true"}


def make_server(base_url: str, dialect: str = "openai_chat", **columns: object) -> Upstream:
    return Upstream.objects.create(name="A", dialect=dialect, base_url=base_url, **columns)


def press(client: Client, route: str, upstream: Upstream, **data: object) -> str:
    address = reverse(route, args=[upstream.public_id])
    return client.post(address, data, headers=FRAGMENT).content.decode()


@pytest.mark.parametrize(("dialect", "path"), [("openai_chat", "/v1"), ("lmstudio", "")])
def test_the_test_goes_all_the_way_to_a_streamed_answer(
    admin_client: Client, demo_server: str, dialect: str, path: str
) -> None:
    upstream = make_server(demo_server + path, dialect)

    page = press(admin_client, "server_test", upstream)

    upstream.refresh_from_db()
    assert [step["name"] for step in upstream.probe] == [
        "address",
        "tls",
        "key",
        "models",
        "answer",
        "tools",
    ]
    takes_tools = dialect == "openai_chat"
    states = [step["state"] for step in upstream.probe]
    assert states == ["ok"] * 5 + ["ok" if takes_tools else "skipped"]
    assert upstream.probed_at is not None
    assert page.count('class="step step-ok"') == 5 + takes_tools
    assert AuditEvent.objects.get().detail["steps"]["answer"] == "ok"


def test_the_test_asks_the_model_that_was_picked(admin_client: Client, demo_server: str) -> None:
    upstream = make_server(f"{demo_server}/v1")
    press(admin_client, "server_models", upstream)

    page = press(admin_client, "server_test", upstream, model="tributary/demo-coder")

    assert "tributary/demo-coder answered as a stream" in page


def test_a_model_that_the_server_does_not_have_in_its_list_is_not_asked(
    admin_client: Client, demo_server: str
) -> None:
    upstream = make_server(f"{demo_server}/v1")

    page = press(admin_client, "server_test", upstream, model="../../etc/passwd")

    assert "passwd" not in page


def test_nothing_listening_is_said_in_words_with_what_to_do(admin_client: Client) -> None:
    upstream = make_server("http://127.0.0.1:9/v1")

    page = press(admin_client, "server_test", upstream)

    assert "The connection was refused" in page
    assert "Check that the server is running and that the port is right" in page
    assert page.count("Not tried, because an earlier step failed.") == 5


def test_an_address_that_is_never_allowed_is_not_tried(admin_client: Client) -> None:
    upstream = make_server("http://169.254.169.254/v1")

    page = press(admin_client, "server_test", upstream)

    assert 'class="step step-failed"' in page
    assert "UPSTREAM_PRIVATE_NETWORKS" in page


def test_a_dialect_that_is_gone_is_said_in_words(admin_client: Client) -> None:
    upstream = make_server("http://127.0.0.1:9", "gone")

    assert "does not know the dialect" in press(admin_client, "server_test", upstream)
    assert "does not know the dialect" in press(admin_client, "server_models", upstream)


def test_what_the_test_found_is_there_when_the_page_is_opened_again(
    admin_client: Client, demo_server: str
) -> None:
    upstream = make_server(f"{demo_server}/v1")
    press(admin_client, "server_test", upstream)

    page = admin_client.get(reverse("server", args=[upstream.public_id])).content.decode()

    assert page.count('class="step step-ok"') == 6


def test_another_address_forgets_the_test(admin_client: Client, demo_server: str) -> None:
    upstream = make_server(f"{demo_server}/v1")
    press(admin_client, "server_test", upstream)

    admin_client.post(
        reverse("server", args=[upstream.public_id]),
        {"name": "A", "dialect": "openai_chat", "base_url": demo_server, "concurrency_limit": 4},
    )

    upstream.refresh_from_db()
    assert upstream.probe == []
    assert upstream.probed_at is None


def test_a_test_of_an_address_that_changed_meanwhile_is_not_kept(
    administrator: User, upstream: Upstream
) -> None:
    Upstream.objects.filter(pk=upstream.pk).update(base_url="http://moved.example")
    steps = [{"name": "address", "label": "Address", "state": "ok"}]

    assert not actions.record_probe(administrator, upstream, steps)
    assert not actions.record_models(administrator, upstream, [{"id": "other"}])

    upstream.refresh_from_db()
    assert upstream.probe == []
    assert [entry["id"] for entry in upstream.model_list] == ["demo/model"]


def test_the_list_is_loaded_and_typed_names_stay(admin_client: Client, demo_server: str) -> None:
    typed = {"id": "my/model", "label": "my/model", "detail": {}, "is_typed": True}
    upstream = make_server(f"{demo_server}/v1", model_list=[typed])

    page = press(admin_client, "server_models", upstream)

    upstream.refresh_from_db()
    names = [entry["id"] for entry in upstream.model_list]
    assert names[-1] == "my/model"
    assert "tributary/demo-writer" in names
    assert upstream.models_listed_at is not None
    assert "tributary/demo-writer" in page


def test_a_list_that_fails_keeps_the_old_one(admin_client: Client, upstream: Upstream) -> None:
    page = press(admin_client, "server_models", upstream)

    upstream.refresh_from_db()
    assert 'role="alert"' in page
    assert [entry["id"] for entry in upstream.model_list] == ["demo/model"]


def test_an_empty_list_keeps_the_old_one(admin_client: Client, plain_server: PlainServer) -> None:
    upstream = make_server(plain_server.url, model_list=[{"id": "old", "label": "old"}])

    page = press(admin_client, "server_models", upstream)

    upstream.refresh_from_db()
    assert "list of models is empty" in page
    assert [entry["id"] for entry in upstream.model_list] == ["old"]


def test_a_list_of_any_size_is_held_to_what_people_can_use(
    admin_client: Client, plain_server: PlainServer
) -> None:
    models = [{"id": f"model-{number}"} for number in range(1500)]
    models += [{"id": "x" * 300}, {"id": "big", "note": "y" * 10_000}]
    plain_server.body = json.dumps({"data": models[-1:] + models[:-1]}).encode()
    upstream = make_server(plain_server.url)

    press(admin_client, "server_models", upstream)

    upstream.refresh_from_db()
    assert len(upstream.model_list) == actions.MODEL_LIMIT
    assert upstream.model_list[0] == {"id": "big", "label": "big", "detail": {}, "is_typed": False}


def test_hostile_names_of_models_are_text(admin_client: Client, plain_server: PlainServer) -> None:
    hostile = "<script>alert(1)</script>"
    plain_server.body = json.dumps({"data": [{"id": hostile, "owned_by": hostile}]}).encode()
    upstream = make_server(plain_server.url)

    listed = press(admin_client, "server_models", upstream)
    tested = press(admin_client, "server_test", upstream)
    page = admin_client.get(reverse("server", args=[upstream.public_id])).content.decode()

    assert "&lt;script&gt;" in listed
    for text in (listed, tested, page):
        assert hostile not in text


def test_a_test_without_htmx_comes_back_to_the_page(
    admin_client: Client, upstream: Upstream
) -> None:
    response = admin_client.post(reverse("server_test", args=[upstream.public_id]))

    assert response.headers["Location"] == reverse("server", args=[upstream.public_id]) + "#test"


# --- what the test found ----------------------------------------------------------------------


ADVICE = {
    "target": "option",
    "name": "inline_think",
    "value": "assume_open",
    "label": "Thinking inside the text: assume_open",
    "reason": "The answer holds a closing tag that nothing opened.",
}


def advised(*advice: dict[str, object], **columns: object) -> Upstream:
    step = {"name": "answer", "label": "Streamed answer", "state": "ok", "advice": list(advice)}
    return make_server("http://127.0.0.1:9/v1", probe=[step], probed_at=timezone.now(), **columns)


def take(client: Client, upstream: Upstream, name: str) -> str:
    address = reverse("server_advice", args=[upstream.public_id])
    return client.post(address, {"advice": name}, follow=True).content.decode()


def test_the_report_says_what_this_server_really_sends(
    admin_client: Client, demo_server: str
) -> None:
    upstream = make_server(f"{demo_server}/v1")

    page = press(admin_client, "server_test", upstream)

    assert "text/event-stream" in page
    assert "[DONE]" in page
    upstream.refresh_from_db()
    facts = dict(upstream.probe[4]["facts"])
    assert facts["Token counts"] == "once, in chunk: usage"
    assert facts["Unknown events"] == "none"


def test_what_the_test_saw_is_counted_and_on_the_page(
    admin_client: Client, demo_server: str
) -> None:
    upstream = make_server(f"{demo_server}/v1")

    tested = press(admin_client, "server_test", upstream)
    page = admin_client.get(reverse("server", args=[upstream.public_id])).content.decode()

    assert SeenEvent.objects.get(upstream=upstream, name="[DONE]").count == 2
    for text in (tested, page):
        assert "chunk: content" in text


def test_an_unknown_event_is_shown_with_its_sample_as_text(
    admin_client: Client, upstream: Upstream
) -> None:
    hostile = '{"type": "<script>alert(1)</script>"}'
    record_seen(upstream.pk, [Seen(name="<img src=x>", count=1234, is_known=False, sample=hostile)])

    page = admin_client.get(reverse("server", args=[upstream.public_id])).content.decode()

    assert "&lt;img src=x&gt;" in page
    assert "1234" in page
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page


def test_advice_is_taken_with_one_button(admin_client: Client) -> None:
    upstream = advised(ADVICE, options={"stream_options": False})
    assert (
        "Apply: Thinking inside the text"
        in admin_client.get(reverse("server", args=[upstream.public_id])).content.decode()
    )

    page = take(admin_client, upstream, "inline_think")

    upstream.refresh_from_db()
    assert upstream.options == {"stream_options": False, "inline_think": "assume_open"}
    assert "applied" in page
    assert "Apply: Thinking" not in page
    event = AuditEvent.objects.get()
    assert event.verb == "upstream.change"
    assert event.detail["options"]["to"]["inline_think"] == "assume_open"


def test_advice_to_speak_another_dialect_changes_it_and_forgets_the_test(
    admin_client: Client,
) -> None:
    advice = {**ADVICE, "target": "dialect", "name": "dialect", "value": "lmstudio"}
    upstream = advised(advice)

    take(admin_client, upstream, "dialect")

    upstream.refresh_from_db()
    assert (upstream.dialect, upstream.probe, upstream.probed_at) == ("lmstudio", [], None)


@pytest.mark.parametrize("name", ["", "stream_options", "dialect", "inline_think"])
def test_only_advice_of_the_last_test_can_be_taken_and_only_once(
    admin_client: Client, name: str
) -> None:
    upstream = advised({**ADVICE, "is_taken": True})

    page = take(admin_client, upstream, name)

    upstream.refresh_from_db()
    assert upstream.options == {}
    assert "out of date" in page
    assert not AuditEvent.objects.exists()


def test_secret_options_go_with_the_test_and_come_back_nowhere(
    admin_client: Client, plain_server: PlainServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = "hf-canary-9b1f22c07d"
    monkeypatch.setattr(
        type(DIALECTS["openai_chat"]),
        "options",
        (Parameter(name="pass", label="Pass", kind="text", is_secret=True),),
    )
    monkeypatch.setattr(
        type(DIALECTS["openai_chat"]),
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

    upstream.refresh_from_db()
    assert plain_server.passes == [token, token]
    assert token not in page + listed + json.dumps(upstream.probe)
    assert "no entry with [redacted]" in page


def test_secret_options_that_cannot_be_read_are_said_to_be_entered_again(
    admin_client: Client, upstream: Upstream
) -> None:
    Upstream.objects.filter(pk=upstream.pk).update(sealed_options="nonsense")
    upstream.refresh_from_db()

    assert "Enter them again and save" in press(admin_client, "server_test", upstream)
