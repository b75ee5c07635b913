"""Cases of exports and imports of many conversations."""

from __future__ import annotations

from datetime import timedelta

from django.core.files.base import ContentFile
from django.utils import timezone

from chat.models import Import, Job, JobKind, Membership, TeamRole
from tests.access_matrix.case import Case, Values, World, alice_only, signed_in_only


def _job_of_alice(world: World, kind: JobKind, **values: object) -> Values:
    expires_at = timezone.now() + timedelta(days=1)
    values = {"kind": kind, "user": world.alice, "team": world.team, **values}
    return {"public_id": Job.objects.create(expires_at=expires_at, **values).public_id}


def _exported(world: World, scope: str = "own") -> Values:
    return _job_of_alice(world, JobKind.EXPORT, status="done", scope=scope, form="json")


def _exported_team(world: World) -> Values:
    return _exported(world, "team")


def _exported_team_of_a_demoted_owner(world: World) -> Values:
    Membership.objects.filter(user=world.alice).update(role=TeamRole.ADMIN)
    return _exported(world, "team")


def _exported_everything_of_no_administrator(world: World) -> Values:
    return _exported(world, "all")


def _uploading(world: World) -> Values:
    return _job_of_alice(world, JobKind.CHECK, status="uploading", size_bytes=5)


def _piece(world: World) -> Values:
    return {**_uploading(world), "number": 0}


def _checked(world: World) -> Values:
    return _job_of_alice(world, JobKind.CHECK, status="done", result={"created": 1})


def _imported(world: World) -> Values:
    batch = Import.objects.create(team=world.team, user=world.alice, format="chatgpt")
    return {"public_id": batch.public_id}


def _own_as_json(world: World) -> Values:
    return {"what": "own", "form": "json"}


def _team_as_json(world: World) -> Values:
    return {"what": world.team.public_id.hex, "form": "json"}


def _all_as_json(world: World) -> Values:
    return {"what": "all", "form": "json", "reason": "Report 12"}


def _upload_fields(world: World) -> Values:
    return {"team": world.team.public_id.hex, "name": "a.json", "size": 5}


def _file_to_import(world: World) -> Values:
    return {"team": world.team.public_id.hex, "file": ContentFile(b"[]", "a.json")}


def _team_choice(world: World) -> Values:
    return {"team": world.team.public_id.hex}


TRANSFER_CASES = [
    *(Case(route, signed_in_only(200)) for route in ("data", "exports", "imports")),
    # People without conversations, or without a right to them, are told so.
    Case("export_start", signed_in_only(409, alice=302), "own", method="post", data=_own_as_json),
    Case("export_start", signed_in_only(422, alice=302), "team", method="post", data=_team_as_json),
    Case(
        *("export_start", signed_in_only(422, administrator=302), "all"),
        method="post",
        data=_all_as_json,
    ),
    Case("export_file", alice_only(200), "own", _exported),
    Case("export_file", alice_only(200), "team", _exported_team),
    Case("export_file", alice_only(404), "demoted", _exported_team_of_a_demoted_owner),
    Case("export_file", alice_only(404), "all", _exported_everything_of_no_administrator),
    Case(
        *("import_upload", signed_in_only(422, alice=200, bob=200)),
        method="post",
        data=_upload_fields,
    ),
    Case(
        *("import_file", signed_in_only(422, alice=302, bob=302)),
        method="post",
        data=_file_to_import,
    ),
    # The piece is not of the announced size.
    Case("import_piece", alice_only(409), "", _piece, "post"),
    Case("import_upload_end", alice_only(409), "", _uploading, "post"),
    Case("import_check", alice_only(302), "", _checked, "post", _team_choice),
    Case("import_confirm", alice_only(302), "", _checked, "post"),
    Case("import_undo", alice_only(302), "", _imported, "post"),
    Case("job_cancel", alice_only(302), "", _uploading, "post"),
    Case("job_delete", alice_only(302), "", _exported, "post"),
]
