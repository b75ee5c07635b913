from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("chat", "0011_uncompacted_segments"),
    ]

    operations = [
        migrations.AddField(
            model_name="team",
            name="withdrawals",
            field=models.PositiveBigIntegerField(default=0, editable=False),
        ),
    ]
