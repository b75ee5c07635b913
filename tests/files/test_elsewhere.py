"""Pictures that an answer names: fetched for people who want that, from nowhere else, and kept."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import pytest
from django.core.cache import cache
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat import events
from chat.actions import elsewhere as verbs
from chat.actions.elsewhere import id_of, keep, kept
from chat.actions.errors import ActionRefused
from chat.live.cursor import pictures_in
from chat.models import Run, StoredFile, User
from chat.views import elsewhere
from chat.views.elsewhere import FETCHES_AT_ONCE
from tests.files.conftest import GIF, Answer, announced_png, png
from tests.support.remote_host import Elsewhere

Ask = Callable[..., HttpResponse]


@pytest.fixture
def host(settings: Any) -> Iterator[Elsewhere]:
    """Another host, which the operator allows: everything else here is refused by its address."""
    cache.clear()
    with Elsewhere() as host:
        settings.PICTURE_PRIVATE_NETWORKS = host.network
        # Whatever servers may be: it says nothing about pictures.
        settings.UPSTREAM_PRIVATE_NETWORKS = "any"
        yield host


@pytest.fixture
def ask(client: Client, alice: User) -> Ask:
    def post(run: Run, address: str, *, by: User = alice) -> HttpResponse:
        client.force_login(by)
        return client.post(reverse("run_pictures", args=[run.public_id]), {"address": address})

    return post


def naming(answer: Answer, *addresses: str) -> Run:
    text = "\n\n".join(f"![A map]({address})" for address in addresses)
    return answer(
        events.MessageStart(item=0),
        events.MessageDelta(item=0, content=text),
        events.MessageEnd(item=0),
    )


def test_a_picture_is_fetched_once_and_stands_for_the_room(
    host: Elsewhere, answer: Answer, ask: Ask, client: Client, bob: User
) -> None:
    address = host.puts("/maps/river.png?x=1&y=%C3%A4", png())
    run = naming(answer, address)

    shown = ask(run, address).json()
    again = ask(run, address, by=bob).json()

    assert again == shown == {address: f"/f/{id_of(run, address)}/"}
    assert host.paths == ["/maps/river.png?x=1&y=%C3%A4"]
    response = client.get(shown[address])
    assert (response.status_code, response.content) == (200, png())
    assert response["Content-Type"] == "image/png"
    assert client.get(reverse("run_pictures", args=[run.public_id])).json() == shown
    assert StoredFile.objects.get().name == "river.png"


def test_the_other_host_learns_nothing_of_who_asks(
    host: Elsewhere, answer: Answer, ask: Ask
) -> None:
    address = host.puts("/a.png", png())

    ask(naming(answer, address), address)

    [(_, headers)] = host.asked
    assert not {"cookie", "authorization", "referer", "origin"} & {name.lower() for name in headers}
    assert headers["User-Agent"] == "Tributary"


@pytest.mark.parametrize("place", ["reasoning", "refusal", "another choice", "a long thought"])
def test_wherever_readers_see_it_it_may_be_asked_for(answer: Answer, place: str) -> None:
    text = "![a](https://x.org/a.png)"
    said = {
        "reasoning": [events.ReasoningDelta(item=0, content=text)],
        "refusal": [events.RefusalDelta(item=0, content=text)],
        "another choice": [events.MessageDelta(item=0, choice=1, content=text)],
        "a long thought": [events.ReasoningDelta(item=0, content="word " * 2000 + f"\n\n{text}\n")],
    }

    assert pictures_in(answer(*said[place])) == ["https://x.org/a.png"]


@pytest.mark.parametrize(
    "text",
    [
        "[a](https://x.org/a.png)",
        "`![a](https://x.org/a.png)`",
        "![a](mailto:a@x.org)",
        "![a](data:image/png;base64,AAAA)",
        "![a](/logout)",
        '<a href="https://x.org/a.png" class="elsewhere">a</a>',
        '[a](https://x.org/b.png "x\\" class=\\"elsewhere")',
        "https://x.org/a.png",
    ],
)
def test_what_is_no_picture_from_elsewhere_cannot_be_asked_for(answer: Answer, text: str) -> None:
    run = answer(events.MessageDelta(item=0, content=text))

    assert pictures_in(run) == []


def test_an_address_that_does_not_stand_in_this_answer_is_not_asked(
    host: Elsewhere, answer: Answer, ask: Ask
) -> None:
    address = host.puts("/a.png", png())
    run = naming(answer, f"{address}?b")
    naming(answer, address)

    for asked in (address, f"{address}?b#c", f"{address}?B", "", "/a.png"):
        assert ask(run, asked).status_code == 404

    assert host.asked == []


PRIVATE = [
    "http://127.0.0.1:{port}/a.png",
    "http://localhost:{port}/a.png",
    "http://2130706433:{port}/a.png",
    "http://0x7f.1:{port}/a.png",
    "http://[::1]:{port}/a.png",
    "http://[::ffff:127.0.0.1]:{port}/a.png",
    "http://0.0.0.0:{port}/a.png",
    "http://169.254.169.254/latest/meta-data",
    "http://10.0.0.1/a.png",
    "http://user:secret@127.0.0.1:{port}/a.png",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_not_asked_whatever_servers_may_be(
    host: Elsewhere, answer: Answer, ask: Ask, settings: Any, address: str
) -> None:
    settings.PICTURE_PRIVATE_NETWORKS = ""
    host.puts("/a.png", png())
    address = address.format(port=host.port)
    run = naming(answer, address)
    assert pictures_in(run) == [address]

    response = ask(run, address)

    assert response.status_code == 404
    assert host.asked == []
    assert not StoredFile.objects.exists()


def test_an_egress_proxy_is_given_no_name_of_a_private_address(
    host: Elsewhere, answer: Answer, ask: Ask, settings: Any
) -> None:
    settings.UPSTREAM_TRANSPORT, settings.UPSTREAM_PROXY = "stock", host.url
    inside = "http://localhost:9/a.png"
    allowed = "http://127.0.0.1:9/a.png"
    for address in (inside, allowed):
        host.pages[address] = (200, {}, png())
    run = naming(answer, inside, allowed)

    settings.PICTURE_PRIVATE_NETWORKS = ""
    assert [ask(run, address).status_code for address in (inside, allowed)] == [404, 404]
    assert host.asked == []

    settings.PICTURE_PRIVATE_NETWORKS = "127.0.0.1/32:9"
    assert ask(run, allowed).status_code == 200
    assert host.paths == [allowed]


def test_nobody_is_followed_elsewhere(host: Elsewhere, answer: Answer, ask: Ask) -> None:
    host.puts("/inside.png", png())
    address = host.puts("/a.png", b"", status=302, Location=f"{host.url}/inside.png")

    assert ask(naming(answer, address), address).status_code == 404

    assert host.paths == ["/a.png"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        b"<html>signed out</html>",
        announced_png(40_000, 10),
        announced_png(20_000, 20_000),
        png(extra=b"x" * 200_000),
    ],
    ids=["nothing", "svg", "page", "too wide", "too many pixels", "too large"],
)
def test_what_is_no_picture_is_not_kept(
    host: Elsewhere, answer: Answer, ask: Ask, settings: Any, body: bytes
) -> None:
    settings.PICTURE_BYTES = 100_000
    address = host.puts("/a.png", body, **{"Content-Type": "image/png"})

    assert ask(naming(answer, address), address).status_code == 404

    assert host.paths == ["/a.png"]
    assert not StoredFile.objects.exists()


def test_its_bytes_decide_what_it_is(host: Elsewhere, answer: Answer, ask: Ask) -> None:
    address = host.puts("/a.html", GIF, **{"Content-Type": "text/html"})

    assert ask(naming(answer, address), address).status_code == 200

    assert (StoredFile.objects.get().media_type, StoredFile.objects.get().name) == (
        "image/gif",
        "a.gif",
    )


def test_all_that_goes_wrong_looks_the_same(host: Elsewhere, answer: Answer, ask: Ask) -> None:
    page = host.puts("/page.png", b"<html>")
    gone = f"{host.url}/gone.png"
    closed = "http://127.0.0.1:1/a.png"
    run = naming(answer, page, gone, closed)
    stranger = naming(answer)
    Run.objects.filter(pk=stranger.pk).update(public_id=uuid.uuid4())

    answers = {ask(run, address).content for address in (page, gone, closed, "https://other.org/")}
    answers.add(ask(Run(public_id=uuid.uuid4()), page).content)

    assert len(answers) == 1


def test_one_person_gets_some_a_minute(
    host: Elsewhere,
    answer: Answer,
    ask: Ask,
    settings: Any,
    bob: User,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.PICTURES_PER_MINUTE = 2
    # All of it within the same minute of the clock.
    now = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now)
    addresses = [host.puts(f"/{n}.png", png()) for n in range(3)]
    run = naming(answer, *addresses)

    statuses = [ask(run, address).status_code for address in addresses]

    assert statuses == [200, 200, 429]
    # What is here already costs nothing, and others have their own share.
    assert ask(run, addresses[0]).status_code == 200
    assert ask(run, addresses[2], by=bob).status_code == 200


def test_slow_hosts_leave_turns_for_pages(
    host: Elsewhere, answer: Answer, ask: Ask, settings: Any
) -> None:
    address = host.puts("/a.png", png())
    run = naming(answer, address)
    assert FETCHES_AT_ONCE < settings.PAGES_AT_ONCE

    with ExitStack() as others:
        for _ in range(FETCHES_AT_ONCE):
            others.enter_context(elsewhere._turns)
        refused = ask(run, address).status_code

    assert (refused, host.asked) == (429, [])
    # Whatever comes of a fetch, its turn is free again.
    assert ask(naming(answer, f"{host.url}/gone.png"), f"{host.url}/gone.png").status_code == 404
    assert elsewhere._turns._value == FETCHES_AT_ONCE
    assert ask(run, address).status_code == 200


def test_an_answer_full_of_pictures_is_looked_up_in_parts(
    answer: Answer,
    alice: User,
    monkeypatch: pytest.MonkeyPatch,
    django_assert_num_queries: Callable[[int], AbstractContextManager[object]],
) -> None:
    monkeypatch.setattr(verbs, "LOOKED_UP_AT_ONCE", 2)
    run = naming(answer)
    addresses = [f"https://x.org/{number}.png" for number in range(5)]
    keep(run, addresses[1], png(), by=alice)
    keep(run, addresses[4], png(), by=alice)

    with django_assert_num_queries(3):
        here = kept(run, addresses)

    assert here == {address: id_of(run, address) for address in (addresses[1], addresses[4])}


def test_of_two_who_bring_it_at_once_one_keeps_it(answer: Answer, alice: User, bob: User) -> None:
    address = "https://x.org/a.png"
    run = naming(answer, address)

    ids = {keep(run, address, png(), by=alice), keep(run, address, png(), by=bob)}

    assert ids == {id_of(run, address)}
    assert StoredFile.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_conversation_that_goes_while_a_picture_comes_keeps_none(
    answer: Answer, alice: User
) -> None:
    run = naming(answer, "https://x.org/a.png")
    Run.objects.get(pk=run.pk).conversation.delete()

    with pytest.raises(ActionRefused):
        keep(run, "https://x.org/a.png", png(), by=alice)

    assert not StoredFile.objects.exists()
