import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('chat', '0019_imported_names'),
    ]

    operations = [
        migrations.CreateModel(
            name='Job',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('public_id', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('kind', models.CharField(choices=[('export', 'Export'), ('check', 'Check of an import'), ('import', 'Import'), ('undo', 'Undo of an import')], max_length=10)),
                ('status', models.CharField(choices=[('uploading', 'Uploading'), ('queued', 'Queued'), ('running', 'Running'), ('done', 'Done'), ('failed', 'Failed'), ('canceled', 'Canceled')], default='queued', max_length=10)),
                ('scope', models.CharField(blank=True, choices=[('own', 'My conversations'), ('team', 'Shared conversations of a team'), ('all', 'All conversations')], max_length=10)),
                ('form', models.CharField(blank=True, max_length=20)),
                ('done', models.PositiveIntegerField(default=0)),
                ('total', models.PositiveIntegerField(default=0)),
                ('result', models.JSONField(blank=True, default=dict)),
                ('error', models.TextField(blank=True)),
                ('file_name', models.CharField(blank=True, max_length=255)),
                ('size_bytes', models.PositiveBigIntegerField(default=0)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('queued_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('finished_at', models.DateTimeField(null=True)),
                ('cancel_requested_at', models.DateTimeField(null=True)),
                ('expires_at', models.DateTimeField()),
                ('lease', models.UUIDField(null=True)),
                ('heartbeat_at', models.DateTimeField(null=True)),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('team', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='chat.team')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='jobs', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-id'],
            },
        ),
        migrations.AddField(
            model_name='import',
            name='job',
            field=models.OneToOneField(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='batch', to='chat.job'),
        ),
        migrations.CreateModel(
            name='JobChunk',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('body', models.BinaryField()),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='chunks', to='chat.job')),
            ],
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('status__in', ('queued', 'running'))), fields=['queued_at'], name='job_due'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(fields=['expires_at'], name='job_expiry'),
        ),
        migrations.AddConstraint(
            model_name='jobchunk',
            constraint=models.UniqueConstraint(fields=('job', 'number'), name='job_chunk_unique'),
        ),
    ]
