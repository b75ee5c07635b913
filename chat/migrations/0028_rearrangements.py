from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chat", "0027_files_without_bytes")]

    operations = [
        migrations.AddField(
            model_name="team",
            name="rearrangements",
            field=models.PositiveBigIntegerField(db_default=0, default=0, editable=False),
        ),
    ]
