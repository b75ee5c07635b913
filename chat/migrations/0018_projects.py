"""Projects of a team."""

import django.db.models.deletion
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("chat", "0017_organization"),
    ]

    operations = [
        migrations.CreateModel(
            name="ProjectMember",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("manager", "Manager"),
                            ("writer", "Writer"),
                            ("reader", "Reader"),
                        ],
                        default="writer",
                        max_length=10,
                        verbose_name="role",
                    ),
                ),
            ],
            options={
                "verbose_name": "project member",
                "verbose_name_plural": "project members",
            },
        ),
        migrations.AlterField(
            model_name="conversation",
            name="visibility",
            field=models.CharField(
                choices=[("private", "Private"), ("team", "Team"), ("project", "Project")],
                default="private",
                max_length=10,
                verbose_name="visibility",
            ),
        ),
        migrations.CreateModel(
            name="Project",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("public_id", models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ("name", models.CharField(max_length=80, verbose_name="name")),
                (
                    "color",
                    models.CharField(
                        choices=[
                            ("gray", "Gray"),
                            ("red", "Red"),
                            ("orange", "Orange"),
                            ("yellow", "Yellow"),
                            ("green", "Green"),
                            ("teal", "Teal"),
                            ("blue", "Blue"),
                            ("purple", "Purple"),
                        ],
                        default="gray",
                        max_length=10,
                        verbose_name="color",
                    ),
                ),
                (
                    "description",
                    models.CharField(blank=True, max_length=500, verbose_name="description"),
                ),
                ("instructions", models.TextField(blank=True, verbose_name="instructions")),
                (
                    "access",
                    models.CharField(
                        choices=[("team", "Everyone on the team"), ("members", "Selected people")],
                        default="team",
                        max_length=10,
                        verbose_name="access",
                    ),
                ),
                ("model", models.CharField(blank=True, max_length=200, verbose_name="model")),
                ("parameters", models.JSONField(blank=True, default=dict)),
                (
                    "created_at",
                    models.DateTimeField(
                        default=django.utils.timezone.now, editable=False, verbose_name="created"
                    ),
                ),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="projects",
                        to="chat.team",
                        verbose_name="team",
                    ),
                ),
                (
                    "tools",
                    models.ManyToManyField(blank=True, related_name="projects", to="chat.tool"),
                ),
                (
                    "upstream",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="chat.upstream",
                    ),
                ),
            ],
            options={
                "verbose_name": "project",
                "verbose_name_plural": "projects",
                "ordering": ["name", "pk"],
            },
        ),
        migrations.AddField(
            model_name="conversation",
            name="project",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.RESTRICT,
                related_name="conversations",
                to="chat.project",
                verbose_name="project",
            ),
        ),
        migrations.AddField(
            model_name="storedfile",
            name="project",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="files",
                to="chat.project",
            ),
        ),
        migrations.AddIndex(
            model_name="conversation",
            index=models.Index(
                condition=models.Q(("project__isnull", False)),
                fields=["project", "-updated_at"],
                name="conversation_project",
            ),
        ),
        migrations.AddConstraint(
            model_name="conversation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("visibility", "private"),
                    models.Q(("project__isnull", True), ("visibility", "team")),
                    models.Q(("project__isnull", False), ("visibility", "project")),
                    _connector="OR",
                ),
                name="conversation_project_visibility",
            ),
        ),
        migrations.AddField(
            model_name="projectmember",
            name="project",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="memberships",
                to="chat.project",
            ),
        ),
        migrations.AddField(
            model_name="projectmember",
            name="user",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="project_memberships",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="project",
            name="members",
            field=models.ManyToManyField(
                related_name="projects", through="chat.ProjectMember", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddConstraint(
            model_name="projectmember",
            constraint=models.UniqueConstraint(
                fields=("project", "user"), name="project_member_unique"
            ),
        ),
        migrations.CreateModel(
            name="RunInstructions",
            fields=[
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="project_instructions",
                        serialize=False,
                        to="chat.run",
                    ),
                ),
                ("text", models.TextField()),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="chat.project",
                    ),
                ),
            ],
        ),
    ]
