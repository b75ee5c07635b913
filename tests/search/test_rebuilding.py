"""Search while its index is rebuilt: it answers, and afterwards nothing is missing and nothing is there twice."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction

from chat.conversations.actions import conversation as actions
from chat.models import Artifact, ArtifactVersion, Conversation, SearchKind, SearchRow, Team, User
from chat.search import sources
from chat.search.find import find
from chat.search.tokens import parse
from tests.support.databases import wait_for_a_lock
from tests.support.files import store_file
from tests.support.rooms import Room

MOST_SECONDS = 120


def rebuild(*arguments: str) -> Any:
    out = StringIO()
    call_command("rebuild_search", "--json", *arguments, stdout=out)
    return json.loads(out.getvalue())


def assert_index_is_right() -> None:
    found = rebuild("--check")
    assert found == {"missing": dict.fromkeys(sources.KINDS, 0), "outdated": 0}
    rows = Counter(SearchRow.objects.values_list("kind", "source", "part"))
    assert [row for row, count in rows.items() if count > 1] == []


def found_by(user: User, words: str) -> Counter[str]:
    """The texts that are found; the same one twice would be counted."""
    hits = find(user, parse(words)).hits
    return Counter("".join(mark.text for mark in hit.snippet) for hit in hits)


@pytest.mark.databases
def test_version_that_comes_while_its_artifact_is_indexed_is_the_one_that_is_found(
    room: Room, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.turn("Draw a willow")
    run, artifact = (
        room.runs[0],
        Artifact.objects.create(conversation=room.conversation, artifact_id="a"),
    )

    def version(number: int, content: str) -> ArtifactVersion:
        return ArtifactVersion.objects.create(
            artifact=artifact, number=number, run=run, seq=number, content=content
        )

    version(1, "first sketch")
    index, is_done = sources.index, False

    def be_overtaken(kind: str, *records: Any, **more: Any) -> None:
        """Its records are read, and a runner stores the next version before they are indexed."""
        nonlocal is_done
        if kind == SearchKind.ARTIFACT and not is_done:
            is_done = True
            version(2, "second sketch")
            sources._index_artifacts(run)
        index(kind, *records, **more)

    monkeypatch.setattr(sources, "index", be_overtaken)
    rebuild("--all")

    assert is_done
    assert list(found_by(alice, "sketch")) == ["\nsecond sketch"]
    assert_index_is_right()


@pytest.mark.databases(only="postgresql")
@pytest.mark.parametrize("kind", [SearchKind.TITLE, SearchKind.FILE])
def test_change_of_what_is_being_indexed_is_not_refused(
    kind: SearchKind, conversation: Conversation, alice: User, transactional_db: None
) -> None:
    """It waits for the rows of the rebuilding, and replaces them."""
    record: Any = conversation
    if kind == SearchKind.FILE:
        record = store_file(b"text", conversation=conversation, name="willow.txt")

    def change() -> None:
        if kind == SearchKind.TITLE:
            actions.rename(conversation, "Willows")
        else:
            with transaction.atomic():
                sources.index_missing(kind, [record])

    in_thread(change, while_indexing=(kind, record))

    assert SearchRow.objects.filter(kind=kind).count() == 1
    assert sum(found_by(alice, "willow").values()) == 1
    rebuild()
    assert_index_is_right()


def in_thread(change: Callable[[], None], *, while_indexing: tuple[str, Any]) -> None:
    """The change waits for a transaction of the rebuilding, which is committed then."""
    failed: list[BaseException] = []

    def work() -> None:
        try:
            change()
        except BaseException as error:
            failed.append(error)
        finally:
            connection.close()

    changing = threading.Thread(target=work)
    with transaction.atomic():
        sources.index(*while_indexing)
        changing.start()
        wait_for_a_lock()
    changing.join(MOST_SECONDS)
    assert failed == []


@pytest.mark.slow
@pytest.mark.databases
def test_people_search_and_write_while_the_index_is_rebuilt(
    room: Room, alice: User, bob: User, team: Team, transactional_db: None
) -> None:
    """Again and again from nothing, beside a person who writes and one who searches."""
    for number in range(30):
        room.turn(f"Willow number {number}")
    is_over = threading.Event()
    failed: list[BaseException] = []
    searches, written = 0, 0

    def search() -> None:
        nonlocal searches
        for texts in (found_by(bob, "willow"), found_by(bob, "answer willow number 7")):
            assert max(texts.values(), default=0) <= 1
        searches += 1

    def write() -> None:
        nonlocal written
        written += 1
        room.turn(f"Willow in addition {written}")
        actions.rename(room.conversation, f"Title {written}")

    def again(work: Callable[[], None]) -> None:
        try:
            while not is_over.is_set():
                work()
        except BaseException as error:
            failed.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=again, args=[work]) for work in (search, write)]
    for thread in threads:
        thread.start()
    while (searches < 20 or written < 20) and not failed:
        rebuild("--all")
    is_over.set()
    for thread in threads:
        thread.join(MOST_SECONDS)

    assert failed == []
    assert_index_is_right()
    texts = [
        *(f"Willow number {number}" for number in range(30)),
        *(f"Willow in addition {number}" for number in range(1, written + 1)),
    ]
    found = Counter(
        "".join(mark.text for mark in hit.snippet)
        for hit in find(bob, parse("willow"), limit=1000).hits
    )
    assert found == Counter([*texts, *(f"Answer to: {text}" for text in texts)])
    assert found_by(bob, f"title {written}") == {f"Title {written}": 1}
    assert found_by(bob, "title") == {f"Title {written}": 1}
