"""Begins many conversations at once, in a process of its own, as the form would: prints the runs.

``python -m tests.support.cluster.ask TEXT COUNT …``. Sending as many forms costs twenty times as much.
"""

import json
import os
import subprocess
import sys
import uuid
from uuid import UUID

from tests.support.cluster.cluster import Cluster
from tests.support.processes.site import ROOT, environment


def ask_many(cluster: Cluster, **counts: int) -> dict[str, list[UUID]]:
    """For each text so many runs that answer it."""
    arguments = [part for text, count in counts.items() for part in (text, str(count))]
    made = subprocess.run(
        [sys.executable, "-m", __name__, *arguments],
        cwd=ROOT,
        # Without Redis: nobody is told, and the runners look within a second.
        env={**environment(cluster.folder), **cluster.settings, "REDIS_URL": ""},
        check=True,
        stdout=subprocess.PIPE,
    )
    return {text: [UUID(run) for run in runs] for text, runs in json.loads(made.stdout).items()}


def main(*arguments: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django

    django.setup()
    counts = zip(arguments[::2], map(int, arguments[1::2]), strict=True)
    print(json.dumps({text: [ask(text) for _ in range(count)] for text, count in counts}))


def ask(text: str) -> str:
    from chat.actions.conversations import ModelChoice, start_conversation
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
