"""Remote images of an answer: fetched on demand, from allowed addresses only, and stored."""

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

from chat import events
from chat.core.errors import ActionRefused
from chat.files import remote_images
from chat.files.remote_images import FETCHES_AT_ONCE, id_of, keep, kept
from chat.live.snapshot import pictures_in
from chat.models import Run, StoredFile, User
from tests.support.answers import GIF, Answer, announced_png, png
from tests.support.remote_host import RemoteHost

Fetch = Callable[..., HttpResponse]


@pytest.fixture
def host(settings: Any) -> Iterator[RemoteHost]:
    """A remote host that the operator allows; other private addresses are refused."""
    cache.clear()
    with RemoteHost() as host:
        settings.PICTURE_PRIVATE_NETWORKS = host.network
        # What servers may be reached says nothing about images.
        settings.UPSTREAM_PRIVATE_NETWORKS = "any"
        yield host


@pytest.fixture
def fetch(client: Client, alice: User) -> Fetch:
    def post(run: Run, address: str, *, by: User = alice) -> HttpResponse:
        client.force_login(by)
        return client.post(reverse("run_pictures", args=[run.public_id]), {"address": address})

    return post


def with_images(answer: Answer, *addresses: str) -> Run:
    text = "\n\n".join(f"![A map]({address})" for address in addresses)
    return answer(
        events.MessageStart(item=0),
        events.MessageDelta(item=0, content=text),
        events.MessageEnd(item=0),
    )


# --- fetched and stored ------------------------------------------------------------------------


def test_image_is_fetched_once_for_all_readers(
    host: RemoteHost, answer: Answer, fetch: Fetch, client: Client, bob: User
) -> None:
    address = host.serve("/maps/river.png?x=1&y=%C3%A4", png())
    run = with_images(answer, address)

    shown = fetch(run, address).json()
    again = fetch(run, address, by=bob).json()

    assert again == shown == {address: f"/f/{id_of(run, address)}/"}
    assert host.paths == ["/maps/river.png?x=1&y=%C3%A4"]
    response = client.get(shown[address])
    assert (response.status_code, response.content) == (200, png())
    assert response["Content-Type"] == "image/png"
    assert client.get(reverse("run_pictures", args=[run.public_id])).json() == shown
    assert StoredFile.objects.get().name == "river.png"


def test_request_identifies_no_reader(host: RemoteHost, answer: Answer, fetch: Fetch) -> None:
    address = host.serve("/a.png", png())

    fetch(with_images(answer, address), address)

    [(_, headers)] = host.requests
    assert not {"cookie", "authorization", "referer", "origin"} & {name.lower() for name in headers}
    assert headers["User-Agent"] == "Tributary"


def test_type_is_told_by_the_bytes(host: RemoteHost, answer: Answer, fetch: Fetch) -> None:
    address = host.serve("/a.html", GIF, **{"Content-Type": "text/html"})

    assert fetch(with_images(answer, address), address).status_code == 200

    file = StoredFile.objects.get()
    assert (file.media_type, file.name) == ("image/gif", "a.gif")


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
def test_invalid_image_is_not_stored(
    host: RemoteHost, answer: Answer, fetch: Fetch, settings: Any, body: bytes
) -> None:
    settings.PICTURE_BYTES = 100_000
    address = host.serve("/a.png", body, **{"Content-Type": "image/png"})

    assert fetch(with_images(answer, address), address).status_code == 404

    assert host.paths == ["/a.png"]
    assert not StoredFile.objects.exists()


def test_image_stored_twice_is_one_file(answer: Answer, alice: User, bob: User) -> None:
    address = "https://x.org/a.png"
    run = with_images(answer, address)

    ids = {keep(run, address, png(), by=alice), keep(run, address, png(), by=bob)}

    assert ids == {id_of(run, address)}
    assert StoredFile.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_image_of_a_deleted_conversation_is_not_stored(answer: Answer, alice: User) -> None:
    run = with_images(answer, "https://x.org/a.png")
    Run.objects.get(pk=run.pk).conversation.delete()

    with pytest.raises(ActionRefused):
        keep(run, "https://x.org/a.png", png(), by=alice)

    assert not StoredFile.objects.exists()


def test_many_stored_images_are_looked_up_in_batches(
    answer: Answer,
    alice: User,
    monkeypatch: pytest.MonkeyPatch,
    django_assert_num_queries: Callable[[int], AbstractContextManager[object]],
) -> None:
    monkeypatch.setattr(remote_images, "LOOKED_UP_AT_ONCE", 2)
    run = with_images(answer)
    addresses = [f"https://x.org/{number}.png" for number in range(5)]
    stored = [addresses[1], addresses[4]]
    for address in stored:
        keep(run, address, png(), by=alice)

    with django_assert_num_queries(3):
        found = kept(run, addresses)

    assert found == {address: id_of(run, address) for address in stored}


# --- which addresses may be fetched ------------------------------------------------------------


def test_images_are_found_in_every_part_of_an_answer(
    answer: Answer, subtests: pytest.Subtests
) -> None:
    text = "![a](https://x.org/a.png)"
    parts = {
        "reasoning": events.ReasoningDelta(item=0, content=text),
        "refusal": events.RefusalDelta(item=0, content=text),
        "another choice": events.MessageDelta(item=0, choice=1, content=text),
        "long reasoning": events.ReasoningDelta(item=0, content="word " * 2000 + f"\n\n{text}\n"),
    }

    for part, event in parts.items():
        with subtests.test(part):
            assert pictures_in(answer(event)) == ["https://x.org/a.png"]


NO_IMAGES = [
    "[a](https://x.org/a.png)",
    "`![a](https://x.org/a.png)`",
    "![a](mailto:a@x.org)",
    "![a](data:image/png;base64,AAAA)",
    "![a](/logout)",
    '<a href="https://x.org/a.png" class="elsewhere">a</a>',
    '[a](https://x.org/b.png "x\\" class=\\"elsewhere")',
    "https://x.org/a.png",
]


def test_other_text_names_no_remote_image(answer: Answer, subtests: pytest.Subtests) -> None:
    for text in NO_IMAGES:
        with subtests.test(text):
            assert pictures_in(answer(events.MessageDelta(item=0, content=text))) == []


def test_only_addresses_of_the_answer_are_fetched(
    host: RemoteHost, answer: Answer, fetch: Fetch
) -> None:
    address = host.serve("/a.png", png())
    run = with_images(answer, f"{address}?b")
    with_images(answer, address)

    for other in (address, f"{address}?b#c", f"{address}?B", "", "/a.png"):
        assert fetch(run, other).status_code == 404

    assert host.requests == []


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


def test_private_addresses_are_not_fetched(
    host: RemoteHost, answer: Answer, fetch: Fetch, settings: Any, subtests: pytest.Subtests
) -> None:
    settings.PICTURE_PRIVATE_NETWORKS = ""
    host.serve("/a.png", png())

    for template in PRIVATE:
        with subtests.test(template):
            address = template.format(port=host.port)
            run = with_images(answer, address)
            assert pictures_in(run) == [address]

            response = fetch(run, address)

            assert response.status_code == 404
            assert host.requests == []
            assert not StoredFile.objects.exists()


def test_proxy_is_not_asked_for_private_addresses(
    host: RemoteHost, answer: Answer, fetch: Fetch, settings: Any
) -> None:
    settings.UPSTREAM_PROXY = host.url
    inside = "http://localhost:9/a.png"
    allowed = "http://127.0.0.1:9/a.png"
    for address in (inside, allowed):
        host.pages[address] = (200, {}, png())
    run = with_images(answer, inside, allowed)

    settings.PICTURE_PRIVATE_NETWORKS = ""
    assert [fetch(run, address).status_code for address in (inside, allowed)] == [404, 404]
    assert host.requests == []

    settings.PICTURE_PRIVATE_NETWORKS = "127.0.0.1/32:9"
    assert fetch(run, allowed).status_code == 200
    assert host.paths == [allowed]


def test_redirects_are_not_followed(host: RemoteHost, answer: Answer, fetch: Fetch) -> None:
    host.serve("/inside.png", png())
    address = host.serve("/a.png", b"", status=302, Location=f"{host.url}/inside.png")

    assert fetch(with_images(answer, address), address).status_code == 404

    assert host.paths == ["/a.png"]


def test_all_failures_look_the_same(host: RemoteHost, answer: Answer, fetch: Fetch) -> None:
    page = host.serve("/page.png", b"<html>")
    gone = f"{host.url}/gone.png"
    closed = "http://127.0.0.1:1/a.png"
    run = with_images(answer, page, gone, closed)

    answers = {
        fetch(run, address).content for address in (page, gone, closed, "https://other.org/")
    }
    answers.add(fetch(Run(public_id=uuid.uuid4()), page).content)

    assert len(answers) == 1


# --- limits ------------------------------------------------------------------------------------


def test_fetches_of_one_person_are_limited_per_minute(
    host: RemoteHost,
    answer: Answer,
    fetch: Fetch,
    settings: Any,
    bob: User,
) -> None:
    settings.PICTURES_PER_MINUTE = 2
    addresses = [host.serve(f"/{n}.png", png()) for n in range(3)]
    run = with_images(answer, *addresses)

    statuses = [fetch(run, address).status_code for address in addresses]

    assert statuses == [200, 200, 429]
    # A stored image costs nothing, and others have their own limit.
    assert fetch(run, addresses[0]).status_code == 200
    assert fetch(run, addresses[2], by=bob).status_code == 200


def test_concurrent_fetches_are_limited(
    host: RemoteHost, answer: Answer, fetch: Fetch, settings: Any
) -> None:
    address = host.serve("/a.png", png())
    gone = f"{host.url}/gone.png"
    run = with_images(answer, address, gone)
    assert FETCHES_AT_ONCE < settings.MAX_CONCURRENT_REQUESTS

    with ExitStack() as others:
        for _ in range(FETCHES_AT_ONCE):
            others.enter_context(remote_images._turns)
        refused = fetch(run, address).status_code

    assert (refused, host.paths) == (429, [])
    # A failed fetch frees its place as well.
    assert fetch(run, gone).status_code == 404
    assert remote_images._turns._value == FETCHES_AT_ONCE
    assert fetch(run, address).status_code == 200
