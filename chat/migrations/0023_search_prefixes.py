"""The index of words on SQLite gets one of their first two letters: a search that has just begun
to be typed read the index of all words with them. `manage.py rebuild_search` fills the new one."""

from django.conf import settings
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

CREATE = (
    "CREATE VIRTUAL TABLE chat_searchindex"
    " USING fts5(words, content='', tokenize='ascii'{prefix})"
)


def create(schema: BaseDatabaseSchemaEditor, prefix: str) -> None:
    if schema.connection.vendor == "sqlite":
        # Without the texts, which it does not keep, an index cannot be changed.
        schema.execute("DELETE FROM chat_searchrow")
        schema.execute("DROP TABLE chat_searchindex")
        schema.execute(CREATE.format(prefix=prefix))


def create_with_prefixes(apps: StateApps, schema: BaseDatabaseSchemaEditor) -> None:
    create(schema, ", prefix='2'")


def create_without(apps: StateApps, schema: BaseDatabaseSchemaEditor) -> None:
    create(schema, "")


class Migration(migrations.Migration):
    dependencies = [("chat", "0022_request_digest")]

    operations = [
        migrations.RunPython(create_with_prefixes, create_without),
        migrations.AlterField(
            "searchrow",
            "author",
            models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=models.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AlterField(
            "searchrow",
            "upstream",
            models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=models.SET_NULL,
                related_name="+",
                to="chat.upstream",
            ),
        ),
    ]
