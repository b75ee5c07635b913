"""The header Idempotency-Key: the run's key, and the check that a repeated key means the same
request."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from uuid import UUID

from django.utils.crypto import salted_hmac
from django.utils.translation import gettext_lazy

from chat.models import AccessToken, Run
from chat.public_api.errors import ApiError
from chat.public_api.requests import ChatRequest

SAID_OTHERWISE = gettext_lazy("This Idempotency-Key was already used for a different request.")
LONGEST_KEY = 255

# Members about delivery: a client that has lost a stream may ask for the whole answer.
_DELIVERY = ("streams", "stops_on_disconnect")


def idempotency_key(token: AccessToken, text: str) -> UUID:
    """The run's key for the client's own request id, separate for each user and team.

    Keys of all runs are unique, and pages send theirs. The secret key keeps others from deriving
    this one from a guessed request id.
    """
    name = f"{token.user_id}:{token.team_id}:{text}".encode("utf-8", "surrogatepass")
    digest = salted_hmac("chat.programs.idempotency", name, algorithm="sha256").digest()
    return UUID(bytes=digest[:16])


def bind_key(run: Run, request: ChatRequest) -> None:
    """Stores the request of a new run, and compares it for a repeated one. Raises ``ApiError``.
    Call this in the transaction that creates the run."""
    digest = _digest_of(request)
    if not run.is_repeated:
        Run.objects.filter(pk=run.pk).update(request_digest=digest)
    elif run.request_digest not in (None, digest):
        raise ApiError(409, str(SAID_OTHERWISE), code="idempotency_key_reused")


def _digest_of(request: ChatRequest) -> str:
    said = {
        each.name: getattr(request, each.name)
        for each in dataclasses.fields(request)
        if each.name not in _DELIVERY
    }
    if said["runs_tools"] is None:
        # Requests of earlier versions have no such member.
        del said["runs_tools"]
    # ASCII, because texts may have single surrogates.
    text = json.dumps(said, sort_keys=True, default=_written)
    return hashlib.sha256(text.encode()).hexdigest()


def _written(value: object) -> str:
    return hashlib.sha256(value).hexdigest() if isinstance(value, bytes) else str(value)
