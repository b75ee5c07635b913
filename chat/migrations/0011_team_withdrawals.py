from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("chat", "0010_announcements"),
    ]

    operations = [
        migrations.AddField(
            model_name="team",
            name="withdrawals",
            field=models.PositiveBigIntegerField(default=0, editable=False),
        ),
    ]
