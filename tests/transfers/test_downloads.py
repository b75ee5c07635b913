"""Downloads of exports: whole, resumed, and only by who may make them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat.jobs.chunks import CHUNK_BYTES
from chat.models import Job, JobChunk, JobKind, JobStatus, Membership, Team, TeamRole, User
from chat.transfers.downloads import FileVanished

SignedIn = Callable[[User], Client]
CONTENT = b"".join(bytes([number]) * (CHUNK_BYTES // 4) for number in range(10))
SIZE = len(CONTENT)
OTHER = '"another"'


@pytest.fixture
def job(transactional_db: None, alice: User) -> Job:
    job = Job.objects.create(
        kind=JobKind.EXPORT,
        status=JobStatus.DONE,
        user=alice,
        scope="own",
        form="json",
        file_name="exported.zip",
        size_bytes=SIZE,
        expires_at=timezone.now() + timedelta(days=1),
    )
    for number in range(0, SIZE, CHUNK_BYTES):
        body = CONTENT[number : number + CHUNK_BYTES]
        JobChunk.objects.create(job=job, number=number // CHUNK_BYTES, body=body)
    return job


def body_of(response: Any) -> bytes:
    if not response.streaming:
        return bytes(response.content)

    async def collect() -> bytes:
        return b"".join([part async for part in response])

    return asyncio.run(collect())


def get(client: Client, job: Job, **headers: str) -> Any:
    return client.get(reverse("export_file", args=[job.public_id]), headers=headers)


WHOLE = (200, 0, SIZE)
# The header, and the status with the first byte and the one after the last.
RANGES: Mapping[str, tuple[int, int, int]] = {
    "": WHOLE,
    "bytes=0-": (206, 0, SIZE),
    "bytes=0-0": (206, 0, 1),
    "bytes=5-9": (206, 5, 10),
    f"bytes={CHUNK_BYTES - 1}-{CHUNK_BYTES}": (206, CHUNK_BYTES - 1, CHUNK_BYTES + 1),
    f"bytes={CHUNK_BYTES}-": (206, CHUNK_BYTES, SIZE),
    f"bytes={SIZE - 1}-": (206, SIZE - 1, SIZE),
    f"bytes=10-{SIZE * 9}": (206, 10, SIZE),
    "bytes=-4": (206, SIZE - 4, SIZE),
    f"bytes=-{SIZE * 9}": (206, 0, SIZE),
    f"bytes={SIZE}-": (416, 0, 0),
    f"bytes={SIZE + 5}-{SIZE + 9}": (416, 0, 0),
    "bytes=-0": (416, 0, 0),
    # Several ranges, and what is none.
    "bytes=0-1,5-6": WHOLE,
    "bytes=9-5": WHOLE,
    "bytes=a-b": WHOLE,
    "bytes=-": WHOLE,
    "lines=0-5": WHOLE,
    "bytes=" + "9" * 400 + "-": WHOLE,
}


def test_ranges(job: Job, alice: User, signed_in: SignedIn, subtests: pytest.Subtests) -> None:
    client = signed_in(alice)
    for header, (status, first, end) in RANGES.items():
        with subtests.test(header):
            response = get(client, job, **({"Range": header} if header else {}))

            assert response.status_code == status
            assert response["Accept-Ranges"] == "bytes"
            assert body_of(response) == CONTENT[first:end]
            if status == 206:
                assert response["Content-Range"] == f"bytes {first}-{end - 1}/{SIZE}"
            if status == 416:
                assert response["Content-Range"] == f"bytes */{SIZE}"
            else:
                assert response["Content-Length"] == str(end - first)
                assert response["Content-Disposition"] == 'attachment; filename="exported.zip"'


def test_resumed_download_is_of_the_same_file(job: Job, alice: User, signed_in: SignedIn) -> None:
    client = signed_in(alice)
    tag = get(client, job)["ETag"]
    assert not tag.startswith("W/")

    same = get(client, job, **{"Range": "bytes=5-", "If-Range": tag})
    weak = get(client, job, **{"Range": "bytes=5-", "If-Range": f"W/{tag}"})
    other = get(client, job, **{"Range": "bytes=5-", "If-Range": OTHER})

    assert [each.status_code for each in (same, weak, other)] == [206, 200, 200]
    assert body_of(same) == CONTENT[5:]
    assert body_of(other) == CONTENT


def test_head_reads_nothing(job: Job, alice: User, signed_in: SignedIn) -> None:
    response = signed_in(alice).head(reverse("export_file", args=[job.public_id]))

    assert (response.status_code, response["Content-Length"]) == (200, str(SIZE))
    assert response.content == b""


def test_only_the_pieces_of_a_range_are_read(job: Job, alice: User, signed_in: SignedIn) -> None:
    JobChunk.objects.exclude(number=1).delete()
    client = signed_in(alice)

    part = get(client, job, Range=f"bytes={CHUNK_BYTES}-{2 * CHUNK_BYTES - 1}")

    assert body_of(part) == CONTENT[CHUNK_BYTES : 2 * CHUNK_BYTES]
    # It must not look as if it were complete.
    with pytest.raises(FileVanished):
        body_of(get(client, job))


def test_file_is_for_its_owner(
    job: Job, alice: User, bob: User, administrator: User, signed_in: SignedIn
) -> None:
    statuses = [get(signed_in(each), job).status_code for each in (alice, bob, administrator)]

    assert statuses == [200, 404, 404]


def test_expired_or_unfinished_file_is_gone(job: Job, alice: User, signed_in: SignedIn) -> None:
    client = signed_in(alice)
    for changes in ({"status": JobStatus.RUNNING}, {"kind": JobKind.CHECK}):
        Job.objects.update(status=JobStatus.DONE, kind=JobKind.EXPORT)
        Job.objects.update(**changes)
        assert get(client, job).status_code == 404
    Job.objects.update(status=JobStatus.DONE, kind=JobKind.EXPORT, expires_at=timezone.now())
    assert get(client, job).status_code == 404


def test_right_is_needed_at_the_download(
    job: Job, team: Team, alice: User, administrator: User, signed_in: SignedIn
) -> None:
    client = signed_in(alice)
    Job.objects.update(scope="team", team=team, result={"exported": 1})
    assert get(client, job).status_code == 200
    assert job.public_id.hex in client.get(reverse("data")).content.decode()
    Membership.objects.filter(user=alice).update(role=TeamRole.ADMIN)
    assert get(client, job).status_code == 404
    assert job.public_id.hex not in client.get(reverse("data")).content.decode()

    Job.objects.update(scope="all", team=None, user=administrator)
    client = signed_in(administrator)
    assert get(client, job).status_code == 200
    User.objects.filter(pk=administrator.pk).update(is_staff=False)
    assert get(client, job).status_code == 404
