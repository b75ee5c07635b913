"""What the request of a program was, so that its Idempotency-Key can't be used for another one. Runs of
earlier versions have none."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chat", "0021_sidebar")]

    operations = [
        # With NULL, SQLite adds a column without copying the table.
        migrations.AddField(
            "run", "request_digest", models.CharField(blank=True, max_length=64, null=True)
        ),
    ]
