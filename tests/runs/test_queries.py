"""Plain SQL stands where a reader looks for it."""

from __future__ import annotations

import ast
import re

from tests.test_import_directions import sources, tree_of

SQL = re.compile(
    r"\b(SELECT\s.*\bFROM|INSERT INTO|UPDATE \w+\s+SET|DELETE FROM|SELECT EXISTS|SELECT pg_\w+|LOCK TABLE)\b",
    re.DOTALL,
)
# The engine's statements are in one module. Each of the others is the only one that knows a table, a
# database's own function, or the expressions of the access rule that its statement is made of.
MODULES = {
    "chat.runs.queries",
    # Builds and runs what the ORM compiles.
    "chat.core.prepared",
    "chat.core.value_table",
    "chat.core.database_identity",
    "chat.live.access_monitor",
    # The only user of the table with the bytes of files.
    "chat.models.file_content",
    "chat.administration.keys",
    "chat.conversations.list_version",
    "chat.drafts.records",
    "chat.health.database",
    # The statement that reads the inbox, of which each source is a part.
    "chat.inbox.entries",
    "chat.inbox.answers",
    "chat.comments.inbox_source",
    "chat.mentions.inbox_source",
    "chat.participants.inbox_source",
    "chat.questions.inbox_source",
    "chat.presence.records",
    "chat.search.index",
    "chat.search.sources",
    # Its row is part of the statement that ends a run.
    "chat.titles.queueing",
    "chat.unread.marks",
}


def texts_of(text: str) -> list[str]:
    """All strings of a module but its docstrings."""
    nodes = list(ast.walk(tree_of(text)))
    prose = {
        id(node.value)
        for node in nodes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
    ]


def test_sql_stands_in_few_modules() -> None:
    with_sql = {name for name, text in sources() if any(map(SQL.search, texts_of(text)))}

    assert with_sql == MODULES
