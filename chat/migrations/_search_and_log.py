"""Indexes of the search and the compression of the log: SQL that Django's operations can't express."""

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

# The words come as tokens, separated by spaces (`chat.search.tokens`): every character that is not
# ASCII belongs to one. Without content the index is half as large as the text. The words of what was
# only begun to be typed are found by their first two letters.
SEARCH_INDEX_IN_SQLITE = (
    "CREATE VIRTUAL TABLE chat_searchindex"
    " USING fts5(words, content='', tokenize='ascii', prefix='2')"
)
# PostgreSQL reads the newest rows first. SQLite reads the rows of a word in the order of their keys,
# and an index by time would mislead it.
SEARCH_INDEXES_IN_POSTGRESQL = (
    "CREATE INDEX chat_searchrow_vector ON chat_searchrow USING gin (vector)",
    "CREATE INDEX chat_searchrow_created ON chat_searchrow (created_at)",
)
LOG_BODIES = [("chat_runsegment", "body"), ("chat_runsegment", "raw"), ("chat_rawsegment", "body")]


def create_search_indexes(apps: StateApps, schema: BaseDatabaseSchemaEditor) -> None:
    if schema.connection.vendor != "postgresql":
        schema.execute(SEARCH_INDEX_IN_SQLITE)
        return
    for index in SEARCH_INDEXES_IN_POSTGRESQL:
        schema.execute(index)


def compress_log_faster(apps: StateApps, schema: BaseDatabaseSchemaEditor) -> None:
    """With lz4, where PostgreSQL was built with it: its own way takes several times as long."""
    database = schema.connection
    if database.vendor != "postgresql" or database.pg_version < 140000:
        return
    for table, column in LOG_BODIES:
        schema.execute(
            f"""
            DO $$ BEGIN
                ALTER TABLE {table} ALTER COLUMN {column} SET COMPRESSION lz4;
            EXCEPTION WHEN feature_not_supported THEN NULL;
            END $$
            """
        )
