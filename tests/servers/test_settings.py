"""Servers are added, changed, switched off, drained and deleted."""

from __future__ import annotations

import re
import uuid

import pytest
from django.test import Client
from django.urls import reverse
from lxml import html

from chat import access
from chat.conversations.choice_form import ChoiceForm
from chat.dialects import DIALECTS
from chat.models import AuditEvent, Conversation, Message, Role, Run, RunStatus, Upstream, User
from chat.servers.actions import servers as actions
from chat.servers.calls import ConnectionReport
from chat.servers.forms import UpstreamForm
from chat.servers.kinds import KINDS
from tests.servers.conftest import FRAGMENT, form_of, page_of, url_of, verbs

NEW = {
    "name": "LM Studio on the desk",
    "dialect": "lmstudio",
    "base_url": "http://localhost:1234/",
    "concurrency_limit": 2,
    "typed_models": "my/model\n\n  other/model  \nmy/model",
}
# Adds the server without a test of its connection, which leaves it disabled.
UNTESTED = {"untested": "true"}


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


def loaded(name: str, *limits: object) -> actions.ModelEntry:
    """A model of LM Studio's list, loaded once for each limit."""
    instances = [{"id": name, "config": {"parallel": limit}} for limit in limits]
    return {"id": name, "label": name, "detail": {"loaded_instances": instances}}


def models_of(upstream: Upstream) -> list[str]:
    upstream.refresh_from_db()
    return [entry["id"] for entry in upstream.model_list]


# --- added -------------------------------------------------------------------------------------


def test_administrator_adds_a_server(admin_client: Client, administrator: User) -> None:
    response = admin_client.post(reverse("server_add"), {**NEW, **UNTESTED})

    upstream = Upstream.objects.get()
    assert response.headers["Location"] == url_of(upstream)
    assert upstream.base_url == "http://localhost:1234"
    assert upstream.concurrency_limit == 2
    assert not upstream.is_enabled
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


# --- added after a test ------------------------------------------------------------------------


def test_tile_fills_in_address_and_api_type(admin_client: Client) -> None:
    page = admin_client.get(reverse("server_add")).content.decode()
    assert 'href="?kind=mistral"' in page

    form = admin_client.get(reverse("server_add"), {"kind": "mistral"}).context["form"]

    assert form["name"].value() == "Mistral"
    assert form["dialect"].value() == "openai_chat"
    assert form["base_url"].value() == "https://api.mistral.ai/v1"
    assert form["option_tool_call_ids"].value() == "nine_letters"


def test_every_kind_of_server_has_a_valid_form(subtests: pytest.Subtests, db: None) -> None:
    for kind in KINDS.values():
        with subtests.test(kind.id):
            empty = UpstreamForm(kind=kind)
            values = {name: empty[name].value() for name in empty.fields}
            address = {"base_url": kind.base_url or "https://api.example.com/v1"}

            assert UpstreamForm({**values, **address}).errors == {}
            assert kind.options.keys() <= {each.name for each in DIALECTS[kind.dialect].options}


def test_server_that_passes_its_test_is_added_enabled(
    admin_client: Client, demo_server: str
) -> None:
    form = {**NEW, "base_url": demo_server, "typed_models": ""}

    response = admin_client.post(reverse("server_add"), form, headers=FRAGMENT)

    upstream = Upstream.objects.get()
    assert response.headers["HX-Redirect"] == url_of(upstream)
    assert upstream.is_enabled
    assert "tributary/demo-writer" in models_of(upstream)
    assert upstream.seen_events.exists()
    assert verbs() == ["upstream.add", "upstream.test", "upstream.list_models"]


@pytest.mark.parametrize(("typed", "limit"), [(4, 3), (6, 6)], ids=["left alone", "changed"])
def test_limit_that_the_server_reports_is_the_default(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, typed: int, limit: int
) -> None:
    models = [loaded("a", 8), loaded("b", 3, 5), loaded("c"), loaded("d", 0, True, "2")]
    report = ConnectionReport(steps=[], models=tuple(models))
    monkeypatch.setattr("chat.servers.views.run_probe", lambda upstream: report)

    admin_client.post(reverse("server_add"), {**NEW, "concurrency_limit": typed})

    assert Upstream.objects.get().concurrency_limit == limit


@pytest.mark.parametrize("headers", [{}, FRAGMENT])
def test_server_that_fails_its_test_is_not_added(
    admin_client: Client, headers: dict[str, str]
) -> None:
    form = {**NEW, "base_url": "http://127.0.0.1:9"}

    response = admin_client.post(reverse("server_add"), form, headers=headers)

    assert response.status_code == 422
    assert "The connection was refused" in response.content.decode()
    assert not Upstream.objects.exists()
    assert verbs() == []


# --- models that can be chosen -----------------------------------------------------------------


def switch_model(client: Client, upstream: Upstream, **button: str) -> list[str]:
    """Presses a switch; the models that are offered now."""
    client.post(url_of(upstream, "server_model_switch"), button)
    upstream.refresh_from_db()
    return [entry["id"] for entry in upstream.chat_models]


def test_model_is_disabled_and_stays_so_when_the_list_is_loaded_again(
    admin_client: Client, administrator: User, upstream: Upstream
) -> None:
    listed = [{"id": "demo/model"}, {"id": "demo/other"}]
    actions.record_models(administrator, upstream, listed)

    assert switch_model(admin_client, upstream, disable="demo/model") == ["demo/other"]
    actions.record_models(administrator, upstream, listed)
    admin_client.post(url_of(upstream, "server_settings"), form_of(upstream))

    upstream.refresh_from_db()
    assert [entry["id"] for entry in upstream.chat_models] == ["demo/other"]
    assert switch_model(admin_client, upstream, disable="") == []
    assert switch_model(admin_client, upstream, enable="demo/model") == ["demo/model"]
    changes = AuditEvent.objects.filter(verb="upstream.change").order_by("pk")
    assert changes[0].detail == {"disabled_models": {"from": [], "to": ["demo/model"]}}


@pytest.mark.parametrize(
    ("entry", "is_offered"),
    [
        ({"id": "text-embedding-3-small"}, False),
        ({"id": "BAAI/bge-reranker-v2-m3"}, False),
        ({"id": "whisper-1"}, False),
        ({"id": "tts-1-hd"}, False),
        ({"id": "gpt-4o-mini-transcribe"}, False),
        ({"id": "omni-moderation-latest"}, False),
        ({"id": "acme/nuttsy-7b"}, True),
        ({"id": "acme/whispering-7b"}, True),
        ({"id": "whisper-chat", "detail": {"type": "chat"}}, True),
        ({"id": "river", "detail": {"type": "embedding"}}, False),
        ({"id": "embedder", "is_typed": True}, True),
        ({"id": "embedder", "is_off": False}, True),
        ({"id": "river", "is_off": True}, False),
    ],
)
def test_picker_leaves_out_what_cannot_chat(
    upstream: Upstream, entry: dict[str, object], is_offered: bool
) -> None:
    upstream.model_list = [entry]

    assert bool(upstream.chat_models) is is_offered


def test_model_left_out_by_its_name_can_be_offered(
    admin_client: Client, administrator: User, upstream: Upstream
) -> None:
    listed = [{"id": "demo/model"}, {"id": "demo/embed"}]
    actions.record_models(administrator, upstream, listed)
    upstream.refresh_from_db()
    assert [entry["id"] for entry in upstream.chat_models] == ["demo/model"]

    offered = switch_model(admin_client, upstream, enable="demo/embed")
    actions.record_models(administrator, upstream, listed)

    upstream.refresh_from_db()
    assert offered == ["demo/model", "demo/embed"]
    assert [entry["id"] for entry in upstream.chat_models] == ["demo/model", "demo/embed"]
    assert switch_model(admin_client, upstream, enable="") == ["demo/model"]


@pytest.mark.parametrize(
    ("detail", "hint"),
    [
        ({"capabilities": {"vision": True}}, "images"),
        ({"architecture": {"input_modalities": ["text", "file", "image"]}}, "images, files"),
        ({"type": "vlm"}, "images"),
        ({"supports_image_input": True}, "images"),
        ({"max_context_length": 32_768, "loaded_instances": [{"id": "a"}]}, "32K context, loaded"),
        (
            {"capabilities": {"reasoning": {"default": "on"}}, "state": "loaded"},
            "reasoning, loaded",
        ),
        ({"capabilities": {"vision": False}}, None),
        ({"capabilities": ["completion"], "architecture": "llama"}, None),
    ],
)
def test_picker_shows_what_a_model_takes(
    alice: User, upstream: Upstream, detail: dict[str, object], hint: str | None
) -> None:
    upstream.model_list = [{"id": "acme/river", "label": "River", "detail": detail}]

    form = ChoiceForm(upstreams=[upstream])
    [option] = html.fromstring(str(form["choice"])).iter("option")

    assert option.get("data-hint") == hint


def test_many_models_are_searched_and_switched_in_what_was_found(
    admin_client: Client, upstream: Upstream
) -> None:
    names = [f"river/{size}b-{kind}" for size in range(11) for kind in ("chat", "code")]
    upstream.model_list = [{"id": name, "label": name.upper()} for name in names]
    upstream.save()
    address = url_of(upstream, "server_models")

    found = admin_client.get(address, {"q": "Code 10B"}).content.decode()
    nothing = admin_client.get(address, {"q": "glacier"}).content.decode()
    pressed = admin_client.post(
        url_of(upstream, "server_model_switch"), {"disable": names[0], "q": "10b code"}
    )

    assert re.findall(r'class="model-name code">([^<]+)', found) == ["river/10b-code"]
    assert 'value="Code 10B"' in found
    assert "Disable all" not in found
    assert "No matches" in nothing
    assert pressed["Location"] == f"{address}?q=10b+code"
    upstream.model_list = upstream.model_list[:20]
    upstream.save()
    page = admin_client.get(address).content.decode()
    assert "Search models" not in page
    assert "Disable all" in page


def test_server_without_models_is_not_offered(alice: User, upstream: Upstream) -> None:
    Upstream.objects.create(name="Empty", dialect="lmstudio", base_url="http://a.example")

    assert [each.name for each in access.usable_upstreams(alice)] == [upstream.name]
    assert access.usable_upstreams(alice, without_models=True).count() == 2


# --- changed -----------------------------------------------------------------------------------


def test_change_is_recorded_with_the_old_value(admin_client: Client, upstream: Upstream) -> None:
    admin_client.post(url_of(upstream, "server_settings"), form_of(upstream, concurrency_limit=9))

    event = AuditEvent.objects.get()
    assert event.verb == "upstream.change"
    assert event.detail == {"concurrency_limit": {"from": 4, "to": 9}}


def test_unchanged_form_is_not_recorded(admin_client: Client, upstream: Upstream) -> None:
    admin_client.post(url_of(upstream, "server_settings"), form_of(upstream))

    assert verbs() == []
    assert models_of(upstream) == ["demo/model"]


def test_typed_models_are_kept_apart_from_listed_ones(
    admin_client: Client, upstream: Upstream
) -> None:
    admin_client.post(
        url_of(upstream, "server_settings"), form_of(upstream, typed_models="my/model\ndemo/model")
    )
    with_typed = models_of(upstream)
    admin_client.post(url_of(upstream, "server_settings"), form_of(upstream, typed_models=""))

    assert with_typed == ["demo/model", "my/model"]
    assert models_of(upstream) == ["demo/model"]


def test_address_of_the_demo_cannot_be_changed(admin_client: Client, upstream: Upstream) -> None:
    Upstream.objects.filter(pk=upstream.pk).update(is_demo=True)
    form = form_of(upstream, base_url="http://evil.example", name="Renamed")

    admin_client.post(url_of(upstream, "server_settings"), form)

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
        **UNTESTED,
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


def test_dialect_is_chosen_without_scripts(admin_client: Client, upstream: Upstream) -> None:
    """The whole form comes back, and nothing is added or changed."""
    typed = {"name": "Typed", "base_url": "http://typed.test/v1", "key": "sk-typed"}
    form = {**typed, "dialect": "xerotier", "choose_dialect": "true"}

    for address in (reverse("server_add"), url_of(upstream, "server_settings")):
        page = admin_client.post(address, form).content.decode()
        assert 'name="option_resume_style"' in page
        assert 'value="Typed"' in page
        assert '<option value="xerotier" selected>' in page
        assert "sk-typed" not in page
    assert not Upstream.objects.filter(name="Typed").exists()


# --- switched off, drained, deleted ------------------------------------------------------------


def test_switching_is_recorded_once_per_change(admin_client: Client, upstream: Upstream) -> None:
    for wanted in ("false", "false", "true"):
        admin_client.post(url_of(upstream, "server_switch"), {"is_enabled": wanted})

    upstream.refresh_from_db()
    assert upstream.is_enabled
    assert verbs() == ["upstream.disable", "upstream.enable"]


@pytest.mark.parametrize(
    ("tab", "route"), [("overview", "server"), ("settings", "server_settings")]
)
def test_switch_leads_back_to_its_tab(
    admin_client: Client, upstream: Upstream, tab: str, route: str
) -> None:
    switch = url_of(upstream, "server_switch")

    from_tab = admin_client.post(switch, {"is_enabled": "false", "from": tab})
    from_list = admin_client.post(switch, {"is_enabled": "true"})

    assert from_tab.headers["Location"] == url_of(upstream, route)
    assert from_list.headers["Location"] == reverse("servers")


@pytest.mark.parametrize(("state", "asks"), [("ok", False), ("failed", True), ("", True)])
def test_server_that_passed_no_test_is_enabled_only_knowingly(
    admin_client: Client, upstream: Upstream, state: str, asks: bool
) -> None:
    steps = [{"name": "address", "label": "Address", "state": state}] if state else []
    Upstream.objects.update(is_enabled=False, probe=steps)

    page = page_of(admin_client, upstream, "server")

    assert ("Enable it anyway?" in page) == asks


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

    for text in ("Cellar", "OpenAI chat completions", "http://127.0.0.1:9/v1", "Failed"):
        assert text in page
    assert "Set on" in page_of(admin_client, keyed, "server")


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
