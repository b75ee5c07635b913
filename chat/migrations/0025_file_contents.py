import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """The bytes of files in rows of their own, which files with the same bytes share. They are moved by the
    next migration: PostgreSQL changes no table in the transaction that has changed its rows."""

    dependencies = [("chat", "0001_squashed_0024")]

    operations = [
        migrations.CreateModel(
            name="FileContent",
            fields=[
                (
                    "sha256",
                    models.CharField(max_length=64, primary_key=True, serialize=False),
                ),
                ("size_bytes", models.PositiveBigIntegerField()),
                ("body", models.BinaryField()),
            ],
        ),
        migrations.AddField(
            model_name="storedfile",
            name="content",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="files",
                to="chat.filecontent",
            ),
        ),
        migrations.AlterModelOptions(
            name="storedfile",
            options={"verbose_name": "file", "verbose_name_plural": "files"},
        ),
    ]
