"""Names that only the source of an imported conversation knows."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('chat', '0018_projects'),
    ]

    operations = [
        migrations.AddField(
            model_name='importedsource',
            name='names',
            field=models.JSONField(blank=True, default=dict),
        ),
    ]
