"""The rows of full-text search, and the index of their words: FTS5 or `tsvector`."""

import chat.models.search
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

# The words come as tokens, separated by spaces (`chat.search.tokens`): every character that is not
# ASCII belongs to one. Without content the index is half as large as the text.
SQLITE = "CREATE VIRTUAL TABLE chat_searchindex USING fts5(words, content='', tokenize='ascii')"
POSTGRESQL = "CREATE INDEX chat_searchrow_vector ON chat_searchrow USING gin (vector)"


def create_index(apps: StateApps, schema: BaseDatabaseSchemaEditor) -> None:
    schema.execute(POSTGRESQL if schema.connection.vendor == "postgresql" else SQLITE)


def drop_index(apps: StateApps, schema: BaseDatabaseSchemaEditor) -> None:
    if schema.connection.vendor != "postgresql":
        schema.execute("DROP TABLE chat_searchindex")


class Migration(migrations.Migration):
    dependencies = [("chat", "0014_plain_labels")]

    operations = [
        migrations.CreateModel(
            name="SearchRow",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(choices=[("title", "Title"), ("message", "Message"), ("answer", "Answer"), ("reasoning", "Reasoning"), ("artifact", "Artifact"), ("file", "File"), ("question", "Question")], max_length=10)),
                ("source", models.PositiveBigIntegerField()),
                ("part", models.PositiveSmallIntegerField(default=0)),
                ("conversation", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="search_rows", to="chat.conversation")),
                ("message", models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name="search_rows", to="chat.message")),
                ("author", models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL)),
                ("upstream", models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="chat.upstream")),
                ("model", models.CharField(blank=True, max_length=200)),
                ("created_at", models.DateTimeField()),
                ("vector", chat.models.search.TokenVector(null=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("kind", "source", "part"), name="search_row_unique")
                ],
            },
        ),
        migrations.RunPython(create_index, drop_index),
    ]
