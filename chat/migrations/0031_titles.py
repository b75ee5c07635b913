import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("chat", "0030_ended_runs"),
    ]

    operations = [
        migrations.AddField(
            model_name="conversation",
            name="has_automatic_title",
            field=models.BooleanField(db_default=False, default=False, editable=False),
        ),
        migrations.CreateModel(
            name="TitleRequest",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("running", "Running"),
                            ("done", "Completed"),
                            ("failed", "Failed"),
                            ("skipped", "Skipped"),
                        ],
                        default="queued",
                        max_length=10,
                    ),
                ),
                ("model", models.CharField(blank=True, max_length=200)),
                ("queued_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("claimed_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                ("title", models.CharField(blank=True, max_length=200)),
                ("input_tokens", models.PositiveBigIntegerField(null=True)),
                ("output_tokens", models.PositiveBigIntegerField(null=True)),
                ("reasoning_tokens", models.PositiveBigIntegerField(null=True)),
                (
                    "reason",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("renamed", "The conversation was renamed meanwhile"),
                            ("deleted", "The conversation was deleted meanwhile"),
                            (
                                "private",
                                "Private and temporary conversations are sent to no other server",
                            ),
                            ("off", "Titles by this model were turned off meanwhile"),
                            ("busy", "The server was busy with answers for too long"),
                            ("lost", "The runner stopped before the title was complete"),
                            ("locked", "The server’s credentials can’t be decrypted"),
                            ("empty", "The model wrote no title"),
                        ],
                        max_length=10,
                    ),
                ),
                ("error_kind", models.CharField(blank=True, max_length=20)),
                ("error_message", models.TextField(blank=True)),
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="title_request",
                        to="chat.run",
                    ),
                ),
                (
                    "upstream",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="title_requests",
                        to="chat.upstream",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("status__in", ["queued", "running"])),
                        fields=["status", "queued_at"],
                        name="title_request_active",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="TitleSetting",
            fields=[
                (
                    "id",
                    models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False),
                ),
                ("model", models.CharField(blank=True, max_length=200)),
                (
                    "upstream",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="chat.upstream",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("id", 1)), name="title_setting_only")
                ],
            },
        ),
    ]
