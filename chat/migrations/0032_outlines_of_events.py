from django.db import migrations


def forget_samples(apps, schema_editor):
    """Clears stored examples, which may have texts of conversations. The next event of a kind brings its outline."""
    apps.get_model('chat', 'SeenEvent').objects.exclude(sample='').update(sample='')


class Migration(migrations.Migration):

    dependencies = [
        ('chat', '0031_titles'),
    ]

    operations = [
        migrations.RunPython(forget_samples, migrations.RunPython.noop),
    ]
