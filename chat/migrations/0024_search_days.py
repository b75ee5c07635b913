"""PostgreSQL gets an index of the rows of full-text search by time: it reads the newest ones first.

SQLite reads the rows of a word in the order of their keys, and would be misled by such an index.
"""

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps


def create_index(apps: StateApps, schema: BaseDatabaseSchemaEditor) -> None:
    if schema.connection.vendor == "postgresql":
        schema.execute("CREATE INDEX chat_searchrow_created ON chat_searchrow (created_at)")


def drop_index(apps: StateApps, schema: BaseDatabaseSchemaEditor) -> None:
    if schema.connection.vendor == "postgresql":
        schema.execute("DROP INDEX chat_searchrow_created")


class Migration(migrations.Migration):
    dependencies = [("chat", "0023_search_prefixes")]

    operations = [migrations.RunPython(create_index, drop_index)]
