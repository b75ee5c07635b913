import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chat", "0028_rearrangements")]

    operations = [
        migrations.CreateModel(
            name="AccessReason",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[("open", "Open"), ("search", "Search"), ("export", "Export")],
                        max_length=10,
                    ),
                ),
                ("reason", models.CharField(blank=True, max_length=300)),
                (
                    "given_at",
                    models.DateTimeField(default=django.utils.timezone.now, editable=False),
                ),
                ("words", models.CharField(blank=True, max_length=200)),
                ("revision", models.PositiveBigIntegerField(default=0)),
                (
                    "administrator",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "after",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="chat.message",
                    ),
                ),
                (
                    "conversation",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="access_reasons",
                        to="chat.conversation",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("conversation__isnull", False), ("kind", "open")),
                            models.Q(
                                models.Q(("kind", "open"), _negated=True),
                                ("conversation__isnull", True),
                            ),
                            _connector="OR",
                        ),
                        name="access_reason_conversation",
                    )
                ],
            },
        ),
    ]
