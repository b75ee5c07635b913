"""The demo servers, created at set-up and kept up to date."""

from __future__ import annotations

from django.conf import settings
from django.db.models import QuerySet

from chat.demo.models import DEMO_SERVERS, DemoServer
from chat.models import Upstream


def ensure_demo_upstream() -> None:
    """Creates the rows of the demo servers, or updates their address. It runs at each start.

    Without a demo its rows are disabled and lose their address, and get it back with the demo. A
    server that an administrator has disabled stays disabled.
    """
    if not settings.DEMO_UPSTREAM_URL:
        Upstream.objects.filter(is_demo=True, is_enabled=True).update(is_enabled=False, base_url="")
        return
    for server in DEMO_SERVERS:
        _ensure(server, f"{settings.DEMO_UPSTREAM_URL.rstrip('/')}{server.path}")


def _ensure(server: DemoServer, base_url: str) -> None:
    rows = Upstream.objects.filter(is_demo=True, dialect=server.dialect)
    rows.filter(base_url="").update(is_enabled=True)
    if rows.update(base_url=base_url):
        _offer_models(rows, server)
        return
    Upstream.objects.create(
        name=_free_name(server.name),
        dialect=server.dialect,
        base_url=base_url,
        is_demo=True,
        model_list=_model_list(server),
    )


def _offer_models(rows: QuerySet[Upstream], server: DemoServer) -> None:
    """A newer version of the demo may have other models. Listed models that it still has, and
    models typed by hand, stay unchanged."""
    offered = _model_list(server)
    for row in rows:
        kept = [each for each in row.model_list if each.get("is_typed") or server.find(each["id"])]
        listed = {entry["id"] for entry in kept}
        models = [*kept, *(entry for entry in offered if entry["id"] not in listed)]
        if models != row.model_list:
            row.model_list = models
            row.save(update_fields=["model_list"])


def _model_list(server: DemoServer) -> list[dict[str, object]]:
    """The models of the picker. They are known here, so the first message waits for no request."""
    return [
        {"id": model.id, "label": model.label, "detail": {}, "is_typed": False}
        for model in server.models
        if model.label
    ]


def _free_name(name: str) -> str:
    """A free name: an administrator may have used the demo's name for another server."""
    taken = set(Upstream.objects.filter(name__startswith=name).values_list("name", flat=True))
    number = 2
    free = name
    while free in taken:
        free = f"{name} {number}"
        number += 1
    return free
