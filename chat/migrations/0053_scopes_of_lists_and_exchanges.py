from django.db import migrations, models
import django.db.models.deletion


class Migration(migrations.Migration):

    dependencies = [
        ('chat', '0052_prompts'),
    ]

    operations = [
        migrations.AddField(
            model_name='toolaccount',
            name='needed_scope',
            field=models.CharField(blank=True, db_default='', default='', max_length=2000),
        ),
        migrations.AlterField(
            model_name='toolrecording',
            name='call',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='recordings', to='chat.toolcall'),
        ),
    ]
