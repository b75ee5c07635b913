"""Remote images in answers: fetched by the server when a person asks for one, and stored once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from threading import BoundedSemaphore
from urllib.parse import unquote, urlsplit
from uuid import UUID, uuid5

from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import IntegrityError, transaction
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from chat import access
from chat.core.errors import ActionRefused
from chat.core.rate_limits import is_within_limit
from chat.files import actions
from chat.files.storage import check_storage
from chat.live.snapshot import pictures_in
from chat.models import FileContent, Run, StoredFile, User
from chat.upstreams.addresses import AddressRefused
from chat.upstreams.client import fetch_file
from chat.upstreams.configured import configured_client, picture_policy
from chat.upstreams.failures import UpstreamError
from chat.upstreams.redaction import Redactor
from chat.web import files as web_files
from chat.web.decorators import login_required

# Addresses in one statement. A hostile answer can name more than an SQL statement takes.
LOOKED_UP_AT_ONCE = 10_000


def id_of(run: Run, address: str) -> UUID:
    """An id that is the same for everyone and at any time, so that no table is needed to map
    addresses. Access to the file is checked as for any other."""
    return uuid5(run.public_id, address)


def kept(run: Run, addresses: Iterable[str]) -> dict[str, UUID]:
    """The ids of those pictures that are stored, by address."""
    ids = {address: id_of(run, address) for address in addresses}
    rows = StoredFile.objects.filter(conversation=run.conversation_id)
    wanted = list(ids.values())
    present: set[UUID] = set()
    for start in range(0, len(wanted), LOOKED_UP_AT_ONCE):
        batch = rows.filter(public_id__in=wanted[start : start + LOOKED_UP_AT_ONCE])
        present.update(batch.values_list("public_id", flat=True))
    return {address: id for address, id in ids.items() if id in present}


def keep(run: Run, address: str, body: bytes, *, by: User) -> UUID:
    """Stores a picture. Raises ``ActionRefused`` for what is no picture, and if the conversation
    was deleted meanwhile. If two requests store it at once, one of them does."""
    last = unquote(urlsplit(address).path).rpartition("/")[2]
    picture = actions.new_file(web_files.file_name(last), body)
    id = id_of(run, address)
    check_storage(by, [picture])
    try:
        with FileContent.objects.writing([picture]) as [content], transaction.atomic():
            StoredFile.objects.store(
                run.conversation_id,
                name=picture.name,
                media_type=picture.media_type,
                content=content,
                by=by,
                public_id=id,
            )
    except IntegrityError as error:
        if not StoredFile.objects.filter(public_id=id).exists():
            raise ActionRefused(gettext("This conversation was deleted.")) from error
    return id


# No browser ever asks the other host. Only addresses that readers of this answer see are fetched,
# and every failure is the same 404, so that nobody can probe a network.

# A slow host blocks one of the threads that render pages. At most half of them may be used for
# this, or a few slow pictures would stop all pages of this process. A limit of 0 means no limit.
FETCHES_AT_ONCE = (
    max(1, settings.MAX_CONCURRENT_REQUESTS // 2) if settings.MAX_CONCURRENT_REQUESTS else 16
)
_turns = BoundedSemaphore(FETCHES_AT_ONCE)
DEFAULT_PORTS = {"http": 80, "https": 443}


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def pictures(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """A map from each address to the stored picture. A ``POST`` fetches one: only members who may
    write make the server request another host, and the picture is then there for the whole room."""
    is_wish = request.method == "POST"
    run = access.get_run(request.user, public_id, for_write=is_wish)
    addresses = pictures_in(run)
    if is_wish:
        address = request.POST.get("address", "")
        if address not in addresses:
            raise Http404(access.NOT_HERE)
        addresses = [address]
        if not kept(run, addresses) and not _bring(request, run, address):
            text = gettext("Too many images at once. Try again in a minute.")
            return HttpResponse(text, status=429)
    here = kept(run, addresses)
    return JsonResponse({address: reverse("file", args=[id]) for address, id in here.items()})


def _bring(request: HttpRequest, run: Run, address: str) -> bool:
    """Fetches a picture. Returns ``False`` if too many are being fetched, at this moment or by this
    user. It never waits, because waiting would block a thread as well. Raises ``Http404``."""
    if not _turns.acquire(blocking=False):
        return False
    try:
        if not is_within_limit("pictures", request.user.pk, settings.PICTURES_PER_MINUTE):
            return False
        keep(run, address, async_to_sync(_fetch)(address), by=request.user)
    except (UpstreamError, AddressRefused, OSError, ActionRefused, ValueError) as error:
        raise Http404(access.NOT_HERE) from error
    finally:
        _turns.release()
    return True


async def _fetch(address: str) -> bytes:
    """Requests the picture without cookies, keys or referrer, and without following redirects."""
    parts = urlsplit(address)
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    policy = picture_policy()
    if settings.UPSTREAM_PROXY:
        # A proxy resolves names itself and may reach more than this server. A name that resolves to
        # a forbidden address is therefore not passed to it at all.
        async with asyncio.timeout(settings.PICTURE_FETCH_SECONDS):
            await policy.resolve(
                parts.hostname or "", parts.port or DEFAULT_PORTS.get(parts.scheme, 443)
            )
    async with configured_client(policy) as client:
        return await fetch_file(
            client,
            base_url=f"{parts.scheme}://{parts.netloc}",
            path=path,
            headers={},
            redactor=Redactor(()),
            limit_bytes=settings.PICTURE_BYTES,
            seconds=settings.PICTURE_FETCH_SECONDS,
        )
