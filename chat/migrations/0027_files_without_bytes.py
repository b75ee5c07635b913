import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chat", "0026_move_file_contents")]

    operations = [
        migrations.RemoveField(model_name="storedfile", name="body"),
        migrations.RemoveField(model_name="storedfile", name="sha256"),
        migrations.AlterField(
            model_name="storedfile",
            name="content",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="files",
                to="chat.filecontent",
            ),
        ),
        # The bytes that an import has written, for its budget.
        migrations.AddField(
            model_name="import",
            name="written_bytes",
            field=models.PositiveBigIntegerField(default=0),
        ),
    ]
