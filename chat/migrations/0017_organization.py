"""Pins, the archive, and temporary conversations."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chat", "0016_imports")]

    operations = [
        migrations.AddField(
            "conversation",
            "archived_at",
            models.DateTimeField(blank=True, null=True, verbose_name="archived"),
        ),
        migrations.AddField(
            "conversation",
            "expires_at",
            models.DateTimeField(blank=True, null=True, verbose_name="expires"),
        ),
        migrations.AddIndex(
            "conversation",
            models.Index(
                fields=["deleted_at"],
                condition=models.Q(deleted_at__isnull=False),
                name="conversation_trash",
            ),
        ),
        migrations.AddIndex(
            "conversation",
            models.Index(
                fields=["expires_at"],
                condition=models.Q(expires_at__isnull=False),
                name="conversation_expiry",
            ),
        ),
        migrations.AddField(
            "user",
            "pin_changes",
            models.PositiveBigIntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.CreateModel(
            name="Pin",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("position", models.PositiveIntegerField()),
                ("conversation", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="pins", to="chat.conversation")),
                ("user", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="pins", to=settings.AUTH_USER_MODEL)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("user", "conversation"), name="pin_unique")
                ],
            },
        ),
    ]
