"""Indexes for what the sidebar reads: the latest conversations of a team, and open questions."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chat", "0020_jobs")]

    operations = [
        migrations.AddIndex(
            "conversation",
            models.Index(fields=["team", "-updated_at"], name="chat_conver_team_id_260e23_idx"),
        ),
        migrations.AddIndex(
            "question",
            models.Index(fields=["status", "conversation"], name="chat_questi_status_2f3c4e_idx"),
        ),
        migrations.RemoveIndex("question", "chat_questi_convers_4695d0_idx"),
    ]
