"""The tables as they were on 26 November 2026 (version 0.1.0).

An installation that has all of the 24 migrations before it goes on behind this one; one that has some of
them is refused (`project/old_databases.py`).
"""

import chat.models.search
import django.db.models.deletion
import django.db.models.functions.text
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models

from chat.migrations._search_and_log import compress_log_faster, create_search_indexes


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
    ]

    operations = [
        migrations.CreateModel(
            name='CacheEntry',
            fields=[
                ('cache_key', models.CharField(max_length=255, primary_key=True, serialize=False)),
                ('value', models.TextField()),
                ('expires', models.DateTimeField(db_index=True)),
            ],
            options={
                'db_table': 'chat_cache',
            },
        ),
        migrations.CreateModel(
            name='Run',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('public_id', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('position', models.PositiveIntegerField(default=0)),
                ('model', models.CharField(max_length=200, verbose_name='model')),
                ('system_prompt', models.TextField(blank=True)),
                ('parameters', models.JSONField(blank=True, default=dict)),
                ('idempotency_key', models.UUIDField(unique=True)),
                ('status', models.CharField(choices=[('queued', 'Queued'), ('running', 'Running'), ('completed', 'Completed'), ('waiting', 'Needs input'), ('incomplete', 'Incomplete'), ('stopped', 'Stopped'), ('failed', 'Failed'), ('cut', 'Cut off'), ('interrupted', 'Interrupted')], default='queued', max_length=12, verbose_name='status')),
                ('stop_requested_at', models.DateTimeField(blank=True, null=True)),
                ('queued_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='queued')),
                ('claimed_at', models.DateTimeField(blank=True, null=True)),
                ('request_sent_at', models.DateTimeField(blank=True, null=True)),
                ('first_event_at', models.DateTimeField(blank=True, null=True)),
                ('first_token_at', models.DateTimeField(blank=True, null=True)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('last_seq', models.PositiveBigIntegerField(default=0)),
                ('result', models.TextField(blank=True)),
                ('response_id', models.CharField(blank=True, max_length=200)),
                ('input_tokens', models.PositiveBigIntegerField(blank=True, null=True)),
                ('output_tokens', models.PositiveBigIntegerField(blank=True, null=True)),
                ('reasoning_tokens', models.PositiveBigIntegerField(blank=True, null=True)),
                ('error_kind', models.CharField(blank=True, max_length=20)),
                ('error_message', models.TextField(blank=True)),
                ('notes', models.JSONField(blank=True, default=list)),
                ('inputs', models.JSONField(blank=True, default=list)),
                ('tools', models.JSONField(blank=True, default=list)),
                ('dialect', models.CharField(blank=True, max_length=40)),
                ('request_digest', models.CharField(blank=True, max_length=64, null=True)),
            ],
            options={
                'verbose_name': 'run',
                'verbose_name_plural': 'runs',
            },
        ),
        migrations.CreateModel(
            name='Runner',
            fields=[
                ('uuid', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False, verbose_name='ID')),
                ('host', models.CharField(max_length=200, verbose_name='host')),
                ('pid', models.PositiveIntegerField(verbose_name='process ID')),
                ('boot', models.CharField(blank=True, max_length=100)),
                ('started_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='started')),
                ('heartbeat_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='last heartbeat')),
                ('is_draining', models.BooleanField(default=False, verbose_name='stopping')),
                ('capacity', models.PositiveIntegerField(db_default=0, default=0)),
            ],
            options={
                'verbose_name': 'runner',
                'verbose_name_plural': 'runners',
            },
        ),
        migrations.CreateModel(
            name='User',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('password', models.CharField(max_length=128, verbose_name='password')),
                ('last_login', models.DateTimeField(blank=True, null=True, verbose_name='last login')),
                ('is_superuser', models.BooleanField(default=False, help_text='Designates that this user has all permissions without explicitly assigning them.', verbose_name='superuser status')),
                ('public_id', models.UUIDField(default=uuid.uuid4, editable=False, unique=True, verbose_name='public ID')),
                ('email', models.EmailField(max_length=254, unique=True, verbose_name='email address')),
                ('name', models.CharField(max_length=80, verbose_name='name')),
                ('is_active', models.BooleanField(default=True, help_text='Deactivate an account instead of deleting it. The person is signed out immediately.', verbose_name='active')),
                ('is_staff', models.BooleanField(default=False, help_text='Can use Administration and change all settings.', verbose_name='administrator')),
                ('date_joined', models.DateTimeField(default=django.utils.timezone.now, verbose_name='joined')),
                ('announcements', models.CharField(choices=[('states', 'Status changes'), ('paragraphs', 'Status changes and each paragraph of the answer'), ('ends', 'Only when an answer is complete')], default='states', max_length=10, verbose_name='screen reader announcements')),
                ('pin_changes', models.PositiveBigIntegerField(db_default=0, default=0, editable=False)),
                ('groups', models.ManyToManyField(blank=True, help_text='The groups this user belongs to. A user will get all permissions granted to each of their groups.', related_name='user_set', related_query_name='user', to='auth.group', verbose_name='groups')),
                ('user_permissions', models.ManyToManyField(blank=True, help_text='Specific permissions for this user.', related_name='user_set', related_query_name='user', to='auth.permission', verbose_name='user permissions')),
            ],
            options={
                'verbose_name': 'user',
                'verbose_name_plural': 'users',
            },
        ),
        migrations.CreateModel(
            name='AuditEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(db_index=True, default=django.utils.timezone.now, editable=False, verbose_name='date')),
                ('verb', models.CharField(db_index=True, max_length=60, verbose_name='action')),
                ('target', models.CharField(blank=True, max_length=200, verbose_name='object')),
                ('detail', models.JSONField(blank=True, default=dict, verbose_name='details')),
                ('actor', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL, verbose_name='actor')),
                ('subject', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL, verbose_name='owner')),
            ],
            options={
                'ordering': ['-id'],
                'verbose_name': 'audit event',
                'verbose_name_plural': 'audit events',
            },
        ),
        migrations.CreateModel(
            name='Conversation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('public_id', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('visibility', models.CharField(choices=[('private', 'Private'), ('team', 'Team'), ('project', 'Project')], default='private', max_length=10, verbose_name='visibility')),
                ('title', models.CharField(max_length=200, verbose_name='title')),
                ('system_prompt', models.TextField(blank=True)),
                ('model', models.CharField(blank=True, max_length=200)),
                ('parameters', models.JSONField(blank=True, default=dict)),
                ('revision', models.PositiveBigIntegerField(default=1)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='created')),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, verbose_name='updated')),
                ('deleted_at', models.DateTimeField(blank=True, null=True, verbose_name='deleted')),
                ('archived_at', models.DateTimeField(blank=True, null=True, verbose_name='archived')),
                ('expires_at', models.DateTimeField(blank=True, null=True, verbose_name='expires')),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='conversations', to=settings.AUTH_USER_MODEL, verbose_name='owner')),
            ],
            options={
                'verbose_name': 'conversation',
                'verbose_name_plural': 'conversations',
            },
        ),
        migrations.CreateModel(
            name='Artifact',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('public_id', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('artifact_id', models.CharField(max_length=200)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='created')),
                ('conversation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='artifacts', to='chat.conversation')),
            ],
        ),
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
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='jobs', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['-id'],
            },
        ),
        migrations.CreateModel(
            name='Import',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('public_id', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('format', models.CharField(max_length=40)),
                ('found', models.PositiveIntegerField(default=0)),
                ('created', models.PositiveIntegerField(default=0)),
                ('skipped', models.PositiveIntegerField(default=0)),
                ('changed', models.PositiveIntegerField(default=0)),
                ('not_understood', models.PositiveIntegerField(default=0)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='created')),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('undone_at', models.DateTimeField(blank=True, null=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='imports', to=settings.AUTH_USER_MODEL)),
                ('job', models.OneToOneField(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='batch', to='chat.job')),
            ],
            options={
                'ordering': ['-id'],
            },
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
        migrations.CreateModel(
            name='KeyMark',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('encryption', 'Encryption key'), ('signing', 'Signing key')], max_length=12)),
                ('mark', models.CharField(max_length=64)),
                ('since', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('kind', 'mark'), name='key_mark_unique')],
            },
        ),
        migrations.CreateModel(
            name='Membership',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(choices=[('owner', 'Owner'), ('admin', 'Admin'), ('member', 'Member'), ('viewer', 'Viewer')], default='member', max_length=10, verbose_name='role')),
                ('joined_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='joined')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to=settings.AUTH_USER_MODEL, verbose_name='user')),
            ],
            options={
                'verbose_name': 'member',
                'verbose_name_plural': 'members',
            },
        ),
        migrations.CreateModel(
            name='Message',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('public_id', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('role', models.CharField(choices=[('user', 'Person'), ('assistant', 'Answer')], max_length=10)),
                ('text', models.TextField(blank=True)),
                ('revision', models.PositiveBigIntegerField(default=1)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='created')),
                ('author', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='messages', to=settings.AUTH_USER_MODEL)),
                ('conversation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='messages', to='chat.conversation')),
                ('parent', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='children', to='chat.message')),
            ],
        ),
        migrations.CreateModel(
            name='BranchChoice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('is_kept', models.BooleanField(db_default=False, default=False)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL)),
                ('conversation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='chat.conversation')),
                ('chosen', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='chat.message')),
                ('parent', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='chat.message')),
            ],
        ),
        migrations.CreateModel(
            name='Mockup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('public_id', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('bundle_id', models.CharField(max_length=200)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='created')),
                ('conversation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='mockups', to='chat.conversation')),
            ],
        ),
        migrations.CreateModel(
            name='Pin',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.PositiveIntegerField()),
                ('conversation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='pins', to='chat.conversation')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='pins', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='Project',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('public_id', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('name', models.CharField(max_length=80, verbose_name='name')),
                ('color', models.CharField(choices=[('gray', 'Gray'), ('red', 'Red'), ('orange', 'Orange'), ('yellow', 'Yellow'), ('green', 'Green'), ('teal', 'Teal'), ('blue', 'Blue'), ('purple', 'Purple')], default='gray', max_length=10, verbose_name='color')),
                ('description', models.CharField(blank=True, max_length=500, verbose_name='description')),
                ('instructions', models.TextField(blank=True, verbose_name='instructions')),
                ('access', models.CharField(choices=[('team', 'Everyone on the team'), ('members', 'Selected people')], default='team', max_length=10, verbose_name='access')),
                ('model', models.CharField(blank=True, max_length=200, verbose_name='model')),
                ('parameters', models.JSONField(blank=True, default=dict)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='created')),
                ('created_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'project',
                'verbose_name_plural': 'projects',
                'ordering': ['name', 'pk'],
            },
        ),
        migrations.AddField(
            model_name='conversation',
            name='project',
            field=models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.RESTRICT, related_name='conversations', to='chat.project', verbose_name='project'),
        ),
        migrations.CreateModel(
            name='ProjectMember',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(choices=[('manager', 'Manager'), ('writer', 'Writer'), ('reader', 'Reader')], default='writer', max_length=10, verbose_name='role')),
                ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to='chat.project')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='project_memberships', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'project member',
                'verbose_name_plural': 'project members',
            },
        ),
        migrations.AddField(
            model_name='project',
            name='members',
            field=models.ManyToManyField(related_name='projects', through='chat.ProjectMember', to=settings.AUTH_USER_MODEL),
        ),
        migrations.CreateModel(
            name='RunInstructions',
            fields=[
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='project_instructions', serialize=False, to='chat.run')),
                ('text', models.TextField()),
            ],
        ),
        migrations.AddField(
            model_name='run',
            name='conversation',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='chat.conversation'),
        ),
        migrations.AddField(
            model_name='run',
            name='message',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='chat.message'),
        ),
        migrations.AddField(
            model_name='run',
            name='requested_by',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='runs', to=settings.AUTH_USER_MODEL, verbose_name='requested by'),
        ),
        migrations.AddField(
            model_name='run',
            name='stop_requested_by',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.CreateModel(
            name='RawSegment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.PositiveIntegerField()),
                ('is_compressed', models.BooleanField(default=False)),
                ('body', models.BinaryField()),
                ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='raw_segments', to='chat.run')),
            ],
        ),
        migrations.CreateModel(
            name='Question',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('public_id', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('position', models.PositiveIntegerField(default=0)),
                ('kind', models.CharField(choices=[('ask', 'Question'), ('approval', 'Approval'), ('tool', 'Tool call')], max_length=10)),
                ('ask_id', models.CharField(max_length=200)),
                ('body', models.JSONField(default=dict)),
                ('status', models.CharField(choices=[('open', 'Open'), ('claimed', 'Being answered'), ('answered', 'Answered'), ('declined', 'Declined'), ('expired', 'Expired')], default='open', max_length=10)),
                ('claimed_at', models.DateTimeField(blank=True, null=True)),
                ('answered_at', models.DateTimeField(blank=True, null=True)),
                ('answer', models.JSONField(blank=True, default=dict)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('answered_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('claimed_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('conversation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='questions', to='chat.conversation')),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='questions', to='chat.run')),
            ],
            options={
                'ordering': ['run', 'position'],
            },
        ),
        migrations.CreateModel(
            name='MockupVersion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField(verbose_name='version')),
                ('seq', models.PositiveBigIntegerField()),
                ('identifier', models.CharField(blank=True, max_length=200)),
                ('title', models.CharField(blank=True, max_length=300)),
                ('entry', models.CharField(blank=True, max_length=500)),
                ('changed', models.JSONField(blank=True, default=list)),
                ('deleted', models.JSONField(blank=True, default=list)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='created')),
                ('mockup', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='versions', to='chat.mockup')),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='mockup_versions', to='chat.run')),
            ],
            options={
                'ordering': ['number'],
                'verbose_name': 'mockup version',
                'verbose_name_plural': 'mockup versions',
            },
        ),
        migrations.CreateModel(
            name='Attempt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('started_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('outcome', models.CharField(blank=True, max_length=20)),
                ('error_kind', models.CharField(blank=True, max_length=20)),
                ('error_message', models.TextField(blank=True)),
                ('retry_after_seconds', models.FloatField(blank=True, null=True)),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='attempts', to='chat.run')),
            ],
        ),
        migrations.CreateModel(
            name='ArtifactVersion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField(verbose_name='version')),
                ('seq', models.PositiveBigIntegerField()),
                ('identifier', models.CharField(blank=True, max_length=200)),
                ('title', models.CharField(blank=True, max_length=300)),
                ('language', models.CharField(blank=True, max_length=60)),
                ('content_type', models.CharField(blank=True, max_length=100)),
                ('content', models.TextField(blank=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='created')),
                ('artifact', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='versions', to='chat.artifact')),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='artifact_versions', to='chat.run')),
            ],
            options={
                'ordering': ['number'],
                'verbose_name': 'artifact version',
                'verbose_name_plural': 'artifact versions',
            },
        ),
        migrations.AddField(
            model_name='run',
            name='runner',
            field=models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='runs', to='chat.runner'),
        ),
        migrations.CreateModel(
            name='RunSegment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('first_seq', models.PositiveBigIntegerField()),
                ('last_seq', models.PositiveBigIntegerField()),
                ('is_compressed', models.BooleanField(default=False)),
                ('body', models.BinaryField()),
                ('raw', models.BinaryField(null=True)),
                ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='segments', to='chat.run')),
            ],
        ),
        migrations.CreateModel(
            name='StoredFile',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('public_id', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('name', models.CharField(blank=True, max_length=255, verbose_name='name')),
                ('media_type', models.CharField(default='application/octet-stream', max_length=100, verbose_name='media type')),
                ('size_bytes', models.PositiveBigIntegerField(default=0)),
                ('sha256', models.CharField(blank=True, max_length=64)),
                ('body', models.BinaryField(default=b'')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='created')),
                ('conversation', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='files', to='chat.conversation')),
                ('created_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('project', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='files', to='chat.project')),
            ],
            options={
                'base_manager_name': 'objects',
                'verbose_name': 'file',
                'verbose_name_plural': 'files',
            },
        ),
        migrations.CreateModel(
            name='MockupFile',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('path', models.CharField(max_length=500)),
                ('content_type', models.CharField(blank=True, max_length=100)),
                ('announced_bytes', models.PositiveBigIntegerField(default=0)),
                ('status', models.CharField(choices=[('wanted', 'Downloading'), ('stored', 'Stored'), ('refused', 'Not downloaded')], default='wanted', max_length=10)),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('reason', models.CharField(blank=True, max_length=300)),
                ('due_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('version', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='files', to='chat.mockupversion')),
                ('file', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='chat.storedfile')),
            ],
            options={
                'ordering': ['path'],
            },
        ),
        migrations.CreateModel(
            name='Attachment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.PositiveIntegerField(default=0)),
                ('message', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='attachments', to='chat.message')),
                ('file', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='attachments', to='chat.storedfile')),
            ],
            options={
                'ordering': ['position'],
            },
        ),
        migrations.CreateModel(
            name='AnswerFile',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('choice', models.PositiveIntegerField(default=0)),
                ('item', models.PositiveIntegerField()),
                ('position', models.PositiveIntegerField(default=0)),
                ('transcript', models.TextField(blank=True)),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='files', to='chat.run')),
                ('file', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='answers', to='chat.storedfile')),
            ],
            options={
                'ordering': ['choice', 'item', 'position'],
            },
        ),
        migrations.CreateModel(
            name='Team',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('public_id', models.UUIDField(default=uuid.uuid4, editable=False, unique=True, verbose_name='public ID')),
                ('name', models.CharField(max_length=80, verbose_name='name')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='created')),
                ('withdrawals', models.PositiveBigIntegerField(default=0, editable=False)),
                ('members', models.ManyToManyField(related_name='teams', through='chat.Membership', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'team',
                'verbose_name_plural': 'teams',
            },
        ),
        migrations.AddField(
            model_name='project',
            name='team',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='projects', to='chat.team', verbose_name='team'),
        ),
        migrations.AddField(
            model_name='membership',
            name='team',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to='chat.team'),
        ),
        migrations.AddField(
            model_name='job',
            name='team',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='chat.team'),
        ),
        migrations.CreateModel(
            name='Invitation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(choices=[('owner', 'Owner'), ('admin', 'Admin'), ('member', 'Member'), ('viewer', 'Viewer')], default='member', max_length=10, verbose_name='role')),
                ('email', models.EmailField(blank=True, help_text='Leave empty for anyone with the link.', max_length=254, verbose_name='email address')),
                ('token_hash', models.CharField(editable=False, max_length=64, unique=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='created')),
                ('expires_at', models.DateTimeField(verbose_name='expires')),
                ('used_at', models.DateTimeField(blank=True, null=True, verbose_name='used')),
                ('revoked_at', models.DateTimeField(blank=True, null=True, verbose_name='revoked')),
                ('invited_by', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='invitations_made', to=settings.AUTH_USER_MODEL, verbose_name='invited by')),
                ('used_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='invitations_used', to=settings.AUTH_USER_MODEL, verbose_name='used by')),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='invitations', to='chat.team', verbose_name='team')),
            ],
            options={
                'verbose_name': 'invitation',
                'verbose_name_plural': 'invitations',
            },
        ),
        migrations.CreateModel(
            name='ImportedSource',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('format', models.CharField(max_length=40)),
                ('source_id', models.CharField(max_length=200)),
                ('digest', models.CharField(max_length=64)),
                ('last_message', models.PositiveBigIntegerField(default=0)),
                ('names', models.JSONField(blank=True, default=dict)),
                ('batch', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='sources', to='chat.import')),
                ('conversation', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='imported_from', to='chat.conversation')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='chat.team')),
            ],
        ),
        migrations.AddField(
            model_name='import',
            name='team',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='imports', to='chat.team'),
        ),
        migrations.AddField(
            model_name='conversation',
            name='team',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='conversations', to='chat.team', verbose_name='team'),
        ),
        migrations.CreateModel(
            name='AccessToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('public_id', models.UUIDField(default=uuid.uuid4, editable=False, unique=True, verbose_name='public ID')),
                ('name', models.CharField(max_length=80)),
                ('token_hash', models.CharField(editable=False, max_length=64, unique=True)),
                ('hint', models.CharField(editable=False, max_length=8)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='created')),
                ('expires_at', models.DateTimeField(blank=True, null=True, verbose_name='expires')),
                ('last_used_at', models.DateTimeField(blank=True, editable=False, null=True, verbose_name='last used')),
                ('revoked_at', models.DateTimeField(blank=True, null=True, verbose_name='revoked')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='access_tokens', to=settings.AUTH_USER_MODEL, verbose_name='user')),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='access_tokens', to='chat.team', verbose_name='team')),
            ],
            options={
                'ordering': ['-created_at'],
                'verbose_name': 'access token',
                'verbose_name_plural': 'access tokens',
            },
        ),
        migrations.CreateModel(
            name='Tool',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('public_id', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('name', models.CharField(max_length=64)),
                ('description', models.TextField(blank=True)),
                ('schema', models.JSONField(blank=True, default=dict)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('created_by', models.ForeignKey(blank=True, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tools', to='chat.team')),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.AddField(
            model_name='project',
            name='tools',
            field=models.ManyToManyField(blank=True, related_name='projects', to='chat.tool'),
        ),
        migrations.AddField(
            model_name='conversation',
            name='tools',
            field=models.ManyToManyField(blank=True, related_name='conversations', to='chat.tool'),
        ),
        migrations.CreateModel(
            name='Upstream',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('public_id', models.UUIDField(default=uuid.uuid4, editable=False, unique=True, verbose_name='public ID')),
                ('name', models.CharField(max_length=80, unique=True, verbose_name='name')),
                ('dialect', models.CharField(max_length=40, verbose_name='API type')),
                ('base_url', models.CharField(max_length=500, verbose_name='address')),
                ('sealed_key', models.TextField(blank=True, editable=False)),
                ('key_set_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('concurrency_limit', models.PositiveIntegerField(default=4, help_text='Further runs are queued.', verbose_name='concurrent runs')),
                ('is_enabled', models.BooleanField(default=True, verbose_name='enabled')),
                ('is_demo', models.BooleanField(default=False, editable=False)),
                ('options', models.JSONField(blank=True, default=dict)),
                ('model_list', models.JSONField(blank=True, default=list)),
                ('models_listed_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('probe', models.JSONField(blank=True, default=list, editable=False)),
                ('probed_at', models.DateTimeField(blank=True, editable=False, null=True, verbose_name='last tested')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='created')),
                ('sealed_options', models.TextField(blank=True, editable=False)),
                ('parameters', models.JSONField(blank=True, default=dict)),
                ('is_draining', models.BooleanField(default=False, verbose_name='paused')),
                ('created_by', models.ForeignKey(blank=True, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL, verbose_name='created by')),
            ],
            options={
                'verbose_name': 'server',
                'verbose_name_plural': 'servers',
            },
        ),
        migrations.CreateModel(
            name='SeenEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=200)),
                ('is_known', models.BooleanField(default=True)),
                ('count', models.PositiveBigIntegerField(default=0)),
                ('sample', models.TextField(blank=True)),
                ('first_seen_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('last_seen_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('upstream', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='seen_events', to='chat.upstream')),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='SearchRow',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('title', 'Title'), ('message', 'Message'), ('answer', 'Answer'), ('reasoning', 'Reasoning'), ('artifact', 'Artifact'), ('file', 'File'), ('question', 'Question')], max_length=10)),
                ('source', models.PositiveBigIntegerField()),
                ('part', models.PositiveSmallIntegerField(default=0)),
                ('model', models.CharField(blank=True, max_length=200)),
                ('created_at', models.DateTimeField()),
                ('vector', chat.models.search.TokenVector(null=True)),
                ('author', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('conversation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='search_rows', to='chat.conversation')),
                ('message', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='search_rows', to='chat.message')),
                ('upstream', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='chat.upstream')),
            ],
        ),
        migrations.AddField(
            model_name='run',
            name='upstream',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='runs', to='chat.upstream', verbose_name='server'),
        ),
        migrations.AddField(
            model_name='project',
            name='upstream',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='chat.upstream'),
        ),
        migrations.AddField(
            model_name='mockup',
            name='upstream',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='chat.upstream'),
        ),
        migrations.AddField(
            model_name='conversation',
            name='upstream',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to='chat.upstream'),
        ),
        migrations.AddConstraint(
            model_name='user',
            constraint=models.UniqueConstraint(django.db.models.functions.text.Lower('email'), name='user_email_unique_lower'),
        ),
        migrations.AddConstraint(
            model_name='artifact',
            constraint=models.UniqueConstraint(fields=('conversation', 'artifact_id'), name='artifact_unique'),
        ),
        migrations.AddConstraint(
            model_name='jobchunk',
            constraint=models.UniqueConstraint(fields=('job', 'number'), name='job_chunk_unique'),
        ),
        migrations.AddIndex(
            model_name='message',
            index=models.Index(fields=['conversation', 'parent', 'id'], name='chat_messag_convers_baa496_idx'),
        ),
        migrations.AddConstraint(
            model_name='branchchoice',
            constraint=models.UniqueConstraint(fields=('user', 'parent'), name='branch_choice_unique'),
        ),
        migrations.AddConstraint(
            model_name='branchchoice',
            constraint=models.UniqueConstraint(condition=models.Q(('parent__isnull', True)), fields=('user', 'conversation'), name='branch_choice_root_unique'),
        ),
        migrations.AddConstraint(
            model_name='pin',
            constraint=models.UniqueConstraint(fields=('user', 'conversation'), name='pin_unique'),
        ),
        migrations.AddConstraint(
            model_name='projectmember',
            constraint=models.UniqueConstraint(fields=('project', 'user'), name='project_member_unique'),
        ),
        migrations.AddField(
            model_name='runinstructions',
            name='project',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='chat.project'),
        ),
        migrations.AddConstraint(
            model_name='rawsegment',
            constraint=models.UniqueConstraint(fields=('run', 'position'), name='raw_segment_unique'),
        ),
        migrations.AddIndex(
            model_name='question',
            index=models.Index(fields=['status', 'conversation'], name='chat_questi_status_2f3c4e_idx'),
        ),
        migrations.AddConstraint(
            model_name='question',
            constraint=models.UniqueConstraint(fields=('run', 'kind', 'ask_id'), name='question_unique'),
        ),
        migrations.AddConstraint(
            model_name='mockupversion',
            constraint=models.UniqueConstraint(fields=('mockup', 'number'), name='mockup_version_unique'),
        ),
        migrations.AddConstraint(
            model_name='mockupversion',
            constraint=models.UniqueConstraint(fields=('mockup', 'run', 'seq'), name='mockup_made_once'),
        ),
        migrations.AddConstraint(
            model_name='attempt',
            constraint=models.UniqueConstraint(fields=('run', 'number'), name='attempt_unique'),
        ),
        migrations.AddConstraint(
            model_name='artifactversion',
            constraint=models.UniqueConstraint(fields=('artifact', 'number'), name='artifact_version_unique'),
        ),
        migrations.AddConstraint(
            model_name='artifactversion',
            constraint=models.UniqueConstraint(fields=('artifact', 'run', 'seq'), name='artifact_made_once'),
        ),
        migrations.AddIndex(
            model_name='runsegment',
            index=models.Index(condition=models.Q(('first_seq', 1), ('is_compressed', False)), fields=['run'], name='segment_uncompacted'),
        ),
        migrations.AddConstraint(
            model_name='runsegment',
            constraint=models.UniqueConstraint(fields=('run', 'first_seq'), name='segment_unique'),
        ),
        migrations.AddIndex(
            model_name='mockupfile',
            index=models.Index(fields=['status', 'due_at'], name='chat_mockup_status_865ba1_idx'),
        ),
        migrations.AddConstraint(
            model_name='mockupfile',
            constraint=models.UniqueConstraint(fields=('version', 'path'), name='mockup_file_unique'),
        ),
        migrations.AddConstraint(
            model_name='attachment',
            constraint=models.UniqueConstraint(fields=('message', 'position'), name='attachment_unique'),
        ),
        migrations.AddConstraint(
            model_name='answerfile',
            constraint=models.UniqueConstraint(fields=('run', 'choice', 'item', 'position'), name='answer_file_unique'),
        ),
        migrations.AddConstraint(
            model_name='membership',
            constraint=models.UniqueConstraint(fields=('team', 'user'), name='membership_unique'),
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
            model_name='importedsource',
            constraint=models.UniqueConstraint(fields=('user', 'team', 'format', 'source_id'), name='imported_source_unique'),
        ),
        migrations.AddConstraint(
            model_name='tool',
            constraint=models.UniqueConstraint(fields=('team', 'name'), name='tool_name_unique'),
        ),
        migrations.AddConstraint(
            model_name='seenevent',
            constraint=models.UniqueConstraint(fields=('upstream', 'name'), name='seen_event_unique'),
        ),
        migrations.AddConstraint(
            model_name='searchrow',
            constraint=models.UniqueConstraint(fields=('kind', 'source', 'part'), name='search_row_unique'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(fields=['status', 'queued_at'], name='chat_run_status_66dbce_idx'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(fields=['runner', 'status'], name='chat_run_runner__e32932_idx'),
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=models.UniqueConstraint(fields=('message', 'position'), name='run_position_unique'),
        ),
        migrations.AddConstraint(
            model_name='mockup',
            constraint=models.UniqueConstraint(fields=('conversation', 'bundle_id'), name='mockup_unique'),
        ),
        migrations.AddIndex(
            model_name='conversation',
            index=models.Index(fields=['owner', '-updated_at'], name='chat_conver_owner_i_77b144_idx'),
        ),
        migrations.AddIndex(
            model_name='conversation',
            index=models.Index(fields=['team', 'visibility', '-updated_at'], name='chat_conver_team_id_70384b_idx'),
        ),
        migrations.AddIndex(
            model_name='conversation',
            index=models.Index(condition=models.Q(('deleted_at__isnull', False)), fields=['deleted_at'], name='conversation_trash'),
        ),
        migrations.AddIndex(
            model_name='conversation',
            index=models.Index(condition=models.Q(('expires_at__isnull', False)), fields=['expires_at'], name='conversation_expiry'),
        ),
        migrations.AddIndex(
            model_name='conversation',
            index=models.Index(condition=models.Q(('project__isnull', False)), fields=['project', '-updated_at'], name='conversation_project'),
        ),
        migrations.AddIndex(
            model_name='conversation',
            index=models.Index(fields=['team', '-updated_at'], name='chat_conver_team_id_260e23_idx'),
        ),
        migrations.AddConstraint(
            model_name='conversation',
            constraint=models.CheckConstraint(condition=models.Q(('visibility', 'private'), models.Q(('project__isnull', True), ('visibility', 'team')), models.Q(('project__isnull', False), ('visibility', 'project')), _connector='OR'), name='conversation_project_visibility'),
        ),
        migrations.RunPython(create_search_indexes, migrations.RunPython.noop),
        migrations.RunPython(compress_log_faster, migrations.RunPython.noop),
    ]
