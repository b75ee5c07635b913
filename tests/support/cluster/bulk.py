"""Starts many conversations at once, in a process of its own, through the product's actions.

``python -m tests.support.cluster.bulk TEXT COUNT …`` prints the runs. Sending as many forms costs
twenty times as much.
"""

import json
import os
import subprocess
import sys
import uuid
from uuid import UUID

from tests.support.cluster.cluster import Cluster
from tests.support.processes.site import ROOT, environment


def send_many(cluster: Cluster, text: str, count: int) -> list[UUID]:
    """``count`` runs that answer ``text``."""
    made = subprocess.run(
        [sys.executable, "-m", __name__, text, str(count)],
        cwd=ROOT,
        # Without Redis nobody is notified, and the runners look within a second.
        env={**environment(cluster.folder), **cluster.settings, "REDIS_URL": ""},
        check=True,
        stdout=subprocess.PIPE,
    )
    return [UUID(run) for run in json.loads(made.stdout)]


def main(text: str, count: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django

    django.setup()
    print(json.dumps([send(text) for _ in range(int(count))]))


def send(text: str) -> str:
    from chat.conversations.actions.messages import ModelChoice, start_conversation
    from chat.models import Team, Upstream, User, Visibility

    run = start_conversation(
        User.objects.get(name="Alice"),
        Team.objects.get(),
        text=text,
        choice=ModelChoice(upstream=Upstream.objects.get(), model="test/model"),
        idempotency_key=uuid.uuid4(),
        visibility=Visibility.TEAM,
    )
    return run.public_id.hex


if __name__ == "__main__":
    main(*sys.argv[1:])
