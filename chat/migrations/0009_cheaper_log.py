"""The tables of runs and their log as they are cheapest to write.

A segment carries its raw frames itself. What an index of several columns finds has no second one. In
PostgreSQL what is too large for a row is compressed with lz4, where the server was built with it: its
own way takes several times as long.
"""

import django.db.models.deletion
from django.db import migrations, models

INDEXES = [
    ("chat_runsegment_run_id_89226ec8", "chat_runsegment", "run_id"),
    ("chat_rawsegment_run_id_f5d9cfbc", "chat_rawsegment", "run_id"),
    ("chat_run_message_id_c5594ba4", "chat_run", "message_id"),
    ("chat_run_runner_id_ecdd88b8", "chat_run", "runner_id"),
]
BODIES = [("chat_runsegment", "body"), ("chat_runsegment", "raw"), ("chat_rawsegment", "body")]


def compress_faster(apps, schema_editor):
    database = schema_editor.connection
    if database.vendor != "postgresql" or database.pg_version < 140000:
        return
    for table, column in BODIES:
        schema_editor.execute(
            f"""
            DO $$ BEGIN
                ALTER TABLE {table} ALTER COLUMN {column} SET COMPRESSION lz4;
            EXCEPTION WHEN feature_not_supported THEN NULL;
            END $$
            """
        )


def compress_as_usual(apps, schema_editor):
    database = schema_editor.connection
    if database.vendor != "postgresql" or database.pg_version < 140000:
        return
    for table, column in BODIES:
        schema_editor.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET COMPRESSION default")


class Migration(migrations.Migration):

    dependencies = [
        ('chat', '0008_runner_capacity'),
    ]

    operations = [
        migrations.AddField(
            model_name='runsegment',
            name='raw',
            field=models.BinaryField(null=True),
        ),
        migrations.RemoveIndex(
            model_name='run',
            name='chat_run_message_9c71d4_idx',
        ),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name='runsegment',
                    name='run',
                    field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='segments', to='chat.run'),
                ),
                migrations.AlterField(
                    model_name='rawsegment',
                    name='run',
                    field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='raw_segments', to='chat.run'),
                ),
                migrations.AlterField(
                    model_name='run',
                    name='message',
                    field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='chat.message'),
                ),
                migrations.AlterField(
                    model_name='run',
                    name='runner',
                    field=models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='runs', to='chat.runner'),
                ),
            ],
            # Not Django's own way: in SQLite it would copy the tables, which are the largest.
            database_operations=[
                migrations.RunSQL(
                    f'DROP INDEX IF EXISTS "{index}"',
                    f'CREATE INDEX "{index}" ON "{table}" ("{column}")',
                )
                for index, table, column in INDEXES
            ],
        ),
        migrations.RunPython(compress_faster, compress_as_usual, elidable=False),
    ]
