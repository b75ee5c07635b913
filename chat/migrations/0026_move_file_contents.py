import hashlib

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps


def move(apps: StateApps, schema: BaseDatabaseSchemaEditor) -> None:
    """One file is in memory at a time. The digest is that of the bytes: very old files have none."""
    files = apps.get_model("chat", "StoredFile").objects
    contents = apps.get_model("chat", "FileContent").objects
    for pk in list(files.filter(content__isnull=True).values_list("pk", flat=True)):
        body = bytes(files.values_list("body", flat=True).get(pk=pk))
        digest = hashlib.sha256(body).hexdigest()
        contents.get_or_create(sha256=digest, defaults={"size_bytes": len(body), "body": body})
        # Emptied at once, or the bytes would be there twice until the column is gone.
        files.filter(pk=pk).update(content_id=digest, body=b"")


def move_back(apps: StateApps, schema: BaseDatabaseSchemaEditor) -> None:
    files = apps.get_model("chat", "StoredFile").objects
    contents = apps.get_model("chat", "FileContent").objects
    for pk, digest in list(files.filter(content__isnull=False).values_list("pk", "content_id")):
        body = bytes(contents.values_list("body", flat=True).get(pk=digest))
        files.filter(pk=pk).update(body=body, sha256=digest, content=None)
    contents.all().delete()


class Migration(migrations.Migration):
    dependencies = [("chat", "0025_file_contents")]

    operations = [migrations.RunPython(move, move_back)]
