from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("chat", "0012_team_withdrawals"),
    ]

    operations = [
        migrations.AddField(
            model_name="branchchoice",
            name="is_kept",
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
