"""Settings → Conversation titles, and the request in the details of its answer."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from chat.models import AuditEvent, TitleReason, TitleRequest, TitleSetting, TitleStatus, Upstream
from tests.support.rooms import get_page, text_of
from tests.titles.conftest import Choose, MakeAnswer

TITLES = "/settings/titles/"


@pytest.fixture
def model(upstream: Upstream) -> str:
    """As the form posts it."""
    upstream.model_list = [{"id": "small", "label": "Small"}]
    upstream.save()
    return f"{upstream.public_id.hex}:small"


def chosen() -> tuple[str, str] | None:
    setting = TitleSetting.objects.select_related("upstream").first()
    return setting and setting.upstream and (setting.upstream.name, setting.model)


def test_administrator_chooses_a_model_and_turns_it_off(
    admin_client: Client, upstream: Upstream, model: str
) -> None:
    page = get_page(admin_client, TITLES)
    assert page.xpath("string(//select[@name='choice']/option[1])") == "Off"

    response = admin_client.post(TITLES, {"choice": model})

    assert response.status_code == 302
    assert chosen() == (upstream.name, "small")
    (shown,) = get_page(admin_client, TITLES).xpath("//option[@selected]/@value")
    assert shown == model
    admin_client.post(TITLES, {"choice": ""})
    assert chosen() is None
    verbs = AuditEvent.objects.values_list("verb", flat=True)
    assert list(verbs[:2]) == ["installation.title_model_chosen"] * 2


@pytest.mark.parametrize("choice", ["unknown", "off"])
def test_model_that_is_not_offered_is_refused(
    admin_client: Client, upstream: Upstream, model: str, choice: str
) -> None:
    if choice == "off":
        upstream.model_list = [{"id": "small", "is_off": True}, {"id": "other"}]
        upstream.save()
    else:
        model = "0" * 32 + ":small"

    response = admin_client.post(TITLES, {"choice": model})

    assert response.status_code == 422
    assert "no longer available" in response.content.decode()
    assert chosen() is None


def test_model_of_a_disabled_server_is_marked(
    admin_client: Client, choose: Choose, upstream: Upstream
) -> None:
    choose()
    Upstream.objects.update(is_enabled=False)

    page = get_page(admin_client, TITLES)

    assert page.xpath("//optgroup/@label") == [f"{upstream.name} (unavailable)"]


def test_request_is_in_the_details_of_its_answer(
    choose: Choose, answered: MakeAnswer, as_alice: Client, upstream: Upstream
) -> None:
    choose()
    run = answered()
    address = reverse("run_details", args=[run.public_id])
    row = "//h2[text()='Conversation title']/following-sibling::div//tbody/tr"

    def shown(**columns: object) -> str:
        TitleRequest.objects.update(**columns)
        (found,) = get_page(as_alice, address).xpath(row)
        return " | ".join(map(text_of, found.xpath("td")))

    assert shown().endswith("Queued")
    sent = {"upstream": upstream, "model": "small", "input_tokens": 1200, "output_tokens": 8}
    done = shown(status=TitleStatus.DONE, title="<b>Bread", **sent)
    assert done.endswith(f"| small on {upstream.name} | 1,200 in, 8 out | Completed <b>Bread")
    failed = shown(status=TitleStatus.FAILED, error_kind="network", error_message="Refused.")
    assert failed.endswith("The server can’t be reached Refused.")
    skipped = shown(status=TitleStatus.SKIPPED, reason=TitleReason.PRIVATE, error_kind="")
    assert "sent to no other server" in skipped


def test_answers_without_a_request_show_none(answered: MakeAnswer, as_alice: Client) -> None:
    address = reverse("run_details", args=[answered().public_id])

    assert "Conversation title" not in as_alice.get(address).content.decode()
