"""What a test has committed is gone for the next one, and only that."""

from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connection

from chat.models import Conversation, Membership, Team, User
from tests.support.tables import empty_filled_tables


def test_everything_is_gone_but_what_the_migrations_made(
    transactional_db: None, conversation: Conversation
) -> None:
    kept = ContentType.objects.count(), Permission.objects.count()

    empty_filled_tables()

    assert not any(model.objects.exists() for model in (Conversation, Membership, Team, User))
    assert (ContentType.objects.count(), Permission.objects.count()) == kept
    assert all(kept)


def test_references_are_looked_at_afterwards(transactional_db: None, team: Team) -> None:
    empty_filled_tables()

    with connection.cursor() as cursor:
        assert connection.vendor != "sqlite" or cursor.execute(
            "PRAGMA foreign_keys"
        ).fetchone() == (1,)
