"""The site of the screens, and the addresses of what they show.

A path of the table may hold ``{room[text]}``, ``{run[text]}``, ``{question[text]}``,
``{run_key[text]}``, ``{room_key[text]}``, ``{link[invitation]}`` or ``{row[chat_user]}``. What it
names is made when it is first asked for, so that a few screens need little of the site.
"""

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from uuid import UUID

from aiosmtpd.controller import Controller

from tests.identity import fake_provider
from tests.identity.fake_provider import FakeProvider
from tests.screens.rooms import BRANCHES, COMPARED, LIVE, PAGES_OF_SCENES, SCENES, SCRIPTED
from tests.support import databases
from tests.support.browser.scenes import SPEED, Scene, SceneSite
from tests.support.browser.site import free_port
from tests.support.processes.seeded import seeded_once
from tests.support.processes.site import ROOT, Site, environment, soon
from tests.support.upstream.fake import FakeUpstream
from tests.tools.sign_in.oauth_server import oauth_server

# Things that an answer made: its conversation, the kind of record, the page.
KEPT = {
    "artifact": ("artifacts", "artifact", "/a/{}/{}/"),
    "artifact-html": ("artifact-page", "artifact", "/a/{}/{}/"),
    "mockup": ("mockup", "mockup", "/k/{}/{}/"),
}


class Made:
    """Values by name, each made once. A failure is kept, too."""

    def __init__(self, make: Callable[[str], str]) -> None:
        self._make = make
        self._made: dict[str, str | Exception] = {}

    def __getitem__(self, name: str) -> str:
        if name not in self._made:
            try:
                self._made[name] = self._make(name)
            except Exception as error:  # reported for each screen that needs it
                self._made[name] = error
        found = self._made[name]
        if isinstance(found, Exception):
            raise found
        return found


# Statements for screens that need another sign-in page. These screens come last.
CHANGES = {
    "one-provider": ("UPDATE chat_identityprovider SET is_enabled = (slug = 'keycloak')",),
    "no-passwords": ("INSERT OR REPLACE INTO chat_passwordsetting (id, is_on) VALUES (1, 0)",),
    "no-provider": ("UPDATE chat_identityprovider SET is_enabled = 0",),
    "no-providers": tuple(
        f"DELETE FROM chat_{table}"
        for table in ("managedmembership", "grouprule", "identity", "identityprovider")
    ),
}


class Stage:
    def __init__(
        self,
        site: SceneSite,
        setup_site: Callable[[], str],
        mail_site: Callable[[], str],
        addresses: Sequence[str],
    ) -> None:
        """``addresses`` are those of the programs that the seed tells the site of."""
        self.site = site
        self._addresses = addresses
        self.failed_steps: list[str] = []
        self._links: dict[str, str] = {}
        self._sites = {"setup": setup_site, "mail": mail_site}
        self._runs = Made(self._begin)
        self._places: dict[str, Made | str] = {
            # Providers send people back to this name, and browsers allow passkeys only at a name.
            "local": f"http://localhost:{site.port}",
            "room": Made(lambda name: site.room(UUID(self._runs[name]))),
            "run": Made(lambda name: f"/r/{UUID(self._runs[name])}/"),
            "room_key": Made(lambda name: str(site.run(UUID(self._runs[name]))["conversation_id"])),
            "run_key": Made(lambda name: str(site.run(UUID(self._runs[name]))["id"])),
            "question": Made(self._question),
            "row": Made(self._newest_row),
            "link": Made(self._link),
        }

    def furnish(self) -> None:
        """Before the site starts: what its people have done so far."""
        self.site.furnish()
        made = subprocess.run(
            [sys.executable, "-m", "tests.screens.seed", self.site.fake.url, *self._addresses],
            cwd=ROOT,
            env=environment(self.site.folder),
            check=True,
            stdout=subprocess.PIPE,
        )
        seeded = json.loads(made.stdout)
        self._links = seeded["links"]
        self.failed_steps = seeded["failed"]
        self.site.world.sessions.update(seeded["sessions"])

    def test_servers(self) -> None:
        """One connection test that passes and one that fails, by the button's own request."""
        for name in ("server-tested", "server-broken"):
            if name in self._links:
                self.site.post("Ada", f"{self._links[name]}test/")

    def address(self, path: str) -> str:
        """Raises what went wrong when one of its places was made."""
        filled = path.format_map(self._places)
        return filled if filled.startswith("http") else f"{self.site.url}{filled}"

    def prepare(self, path: str) -> None:
        """Makes the places of a path; what fails is reported when the screen is taken."""
        with contextlib.suppress(Exception):
            self.address(path)

    # --- conversations -------------------------------------------------------------------------

    def _begin(self, name: str) -> str:
        special = {
            "queued": self._queue,
            "message-queue": lambda: self._queue_messages("message-queue"),
            "message-queue-held": self._hold_messages,
            "branches": self._branch,
            "private": self._keep_private,
            "comments": self._comment,
            "comparison": lambda: self._compare("comparison"),
            "comparison-live": lambda: self._compare("comparison-live"),
            "feedback": self._rate,
            "left-out": self._leave_out,
        }
        if name in special:
            return str(special[name]())
        if name in PAGES_OF_SCENES:
            return str(self._play_all(PAGES_OF_SCENES[name]))
        if name in SCENES:
            run = self.site.ask(SCENES[name])
            self.site.until_ended(run)
            return str(run)
        if name in SCRIPTED:
            text, script = SCRIPTED[name]
            self.site.fake.script(script)
            run = self.site.send(text)
            self.site.until_ended(run)
            return str(run)
        return str(self._run_to_gate(name))

    def _play_all(self, scenes: Sequence[Scene]) -> UUID:
        """One conversation of all these scenes; its first run."""
        runs = [self.site.ask(scene) for scene in scenes]
        # A scene may begin another run when its first one has ended.
        unfinished = "SELECT 1 FROM chat_run WHERE status IN ('queued', 'running') AND id >= ?"
        soon(lambda: not self.site.rows(unfinished, self.site.run(runs[0])["id"]))
        self.site.join(runs)
        return runs[0]

    def _run_to_gate(self, name: str) -> UUID:
        text, script = LIVE[name]
        self.site.fake.script(script)
        run = self.site.send(text, by="Bob")
        self.site.fake.wait_until(lambda fake: name in fake.waiting)
        if name == "stopped":
            soon(lambda: self.site.run(run)["first_token_at"])
            self.site.stop_run(run, by="Alice")
            self.site.until_ended(run)
        return run

    def _queue(self) -> UUID:
        """A message to the server that begins nothing new."""
        key = uuid.uuid4()
        server = self.site.value("SELECT public_id FROM chat_upstream WHERE is_draining")
        with self.site.browser("Bob") as browser:
            answer = browser.post(
                "/c/",
                data={
                    "text": "When is high water on Sunday?",
                    "choice": f"{UUID(server).hex}:test/model",
                    "key": str(key),
                    "team": self.site.world.team,
                    "visibility": "team",
                },
            )
        assert answer.status_code == 302, answer.text
        found = "SELECT public_id FROM chat_run WHERE idempotency_key = ?"
        return UUID(self.site.value(found, key.hex))

    def _queue_messages(self, name: str) -> UUID:
        """An answer that runs, and two messages that are sent after it."""
        run = self._run_to_gate(name)
        for person, text in (
            ("Bob", "And how deep is it there?"),
            (
                "Alice",
                "Make a table of the plants, with their names in Latin, and when they flower.",
            ),
        ):
            form = {
                "text": text,
                "choice": f"{self.site.world.upstream}:test/model",
                "key": str(uuid.uuid4()),
                "parent": self.site.message_of(run).hex,
            }
            path = f"/c/{self.site.conversation_of(run)}/send/"
            assert self.site.post(person, path, **form).status_code == 302
        return run

    def _hold_messages(self) -> UUID:
        """Two messages after an answer that somebody has stopped."""
        run = self._queue_messages("message-queue-held")
        self.site.stop_run(run, by="Alice")
        self.site.until_ended(run)
        return run

    def _branch(self) -> UUID:
        """A turn with two versions."""
        self.site.fake.script(*BRANCHES)
        run = self.site.send("Find a name for the boat.")
        self.site.until_ended(run)
        again = self.site.retry(run)
        self.site.until_ended(again)
        return again

    def _compare(self, name: str) -> UUID:
        """Three models side by side: ended in different ways, or still at it."""
        self.site.fake.script(*COMPARED[name])
        key = uuid.uuid4()
        server = self.site.world.upstream
        with self.site.browser("Bob") as browser:
            answer = browser.post(
                "/c/",
                data={
                    "text": "Which boat should we buy for the lock?",
                    "choice": f"{server}:test/model",
                    "compare": [f"{server}:river-large-2026", f"{server}:river-small"],
                    "key": str(key),
                    "team": self.site.world.team,
                    "visibility": "team",
                },
            )
        assert answer.status_code == 302, answer.text
        run = self.site._run_of(key)
        if name == "comparison":
            live = "SELECT 1 FROM chat_run WHERE status IN ('queued', 'running') AND id >= ?"
            soon(lambda: not self.site.rows(live, self.site.run(run)["id"]))
        else:
            self.site.fake.wait_until(lambda fake: fake.waiting.count(name) >= 2)
        return run

    def _keep_private(self) -> UUID:
        self.site.fake.script(SCRIPTED["short"][1])
        run = self.site.send("A note to myself", visibility="private")
        self.site.until_ended(run)
        return run

    def _comment(self) -> UUID:
        """Two people about a message, and a thread that is resolved."""
        self.site.fake.script(SCRIPTED["short"][1])
        run = self.site.send("When is low water?")
        self.site.until_ended(run)
        answer = f"/m/{UUID(self._question_of(run))}/comments/"
        for person, text in (
            ("Bob", "Is this for the harbor or for the bridge?"),
            ("Alice", "For the harbor. The bridge is here: https://example.org/tides"),
            ("Bob", "Thanks, that was all."),
        ):
            self.site.post(person, answer, text=text, key=str(uuid.uuid4()))
        last = self.site.value("SELECT public_id FROM chat_comment ORDER BY id DESC LIMIT 1")
        self.site.post("Alice", f"/comments/{UUID(last)}/resolve/")
        return run

    def _rate(self) -> UUID:
        """Two people who judge an answer differently."""
        self.site.fake.script(SCRIPTED["short"][1])
        run = self.site.send("When is high water?")
        self.site.until_ended(run)
        answer = f"/m/{self.site.message_of(run)}/feedback/"
        note = "The table of the harbor office says half an hour earlier."
        self.site.post("Bob", answer, value="-1", bad="not_correct", note=note)
        self.site.post("Alice", answer, value="1", good="clear", note="")
        return run

    def _leave_out(self) -> UUID:
        """Two messages, of which models are no longer sent the first."""
        self.site.fake.script(SCRIPTED["short"][1])
        first = self.site.send("When is low water at the harbor this week?")
        self.site.until_ended(first)
        self.site.fake.script(SCRIPTED["short"][1])
        room = f"/c/{self.site.conversation_of(first)}"
        form = {
            "text": "And at the bridge?",
            "choice": f"{self.site.world.upstream}:test/model",
            "key": str(uuid.uuid4()),
            "parent": self.site.message_of(first).hex,
        }
        assert self.site.post("Alice", f"{room}/send/", **form).status_code == 302
        run = UUID(self.site.value("SELECT public_id FROM chat_run ORDER BY id DESC LIMIT 1"))
        self.site.until_ended(run)
        start = {"start": self._question_of(run)}
        assert self.site.post("Bob", f"{room}/context/start/", **start).status_code == 302
        return run

    # --- other places -----------------------------------------------------------------------------

    def _question(self, name: str) -> str:
        """The message that a run answers."""
        return self._question_of(UUID(self._runs[name]))

    def _question_of(self, run: UUID) -> str:
        answer = self.site.message_of(run)
        found = self.site.value(
            "SELECT q.public_id FROM chat_message q JOIN chat_message a ON a.parent_id = q.id"
            " WHERE a.public_id = ?",
            answer.hex,
        )
        return str(UUID(found))

    def _newest_row(self, table: str) -> str:
        """The key of the newest record; of the audit log, of one that changed something."""
        where = "WHERE verb = 'upstream.change'" if table == "chat_auditevent" else ""
        return str(self.site.value(f"SELECT id FROM {table} {where} ORDER BY id DESC LIMIT 1"))

    def _link(self, name: str) -> str:
        if name in self._sites:
            return self._sites[name]()
        if name in CHANGES:
            for statement in CHANGES[name]:
                self.site.rows(statement)
            return ""
        if name in KEPT:
            room, kind, path = KEPT[name]
            conversation = self.site.conversation_of(UUID(self._runs[room]))
            [newest, *_] = self.site.rows(
                f"SELECT k.public_id, v.number FROM chat_{kind} k JOIN chat_{kind}version v"
                f" ON v.{kind}_id = k.id JOIN chat_conversation c ON c.id = k.conversation_id"
                " WHERE c.public_id = ? ORDER BY v.number DESC",
                conversation.hex,
            )
            return path.format(UUID(newest["public_id"]), newest["number"])
        if name == "tool":
            return f"/people/tools/{UUID(self.site.tools[0])}/"
        return self._links[name]


@contextlib.contextmanager
def open_stage() -> Iterator[Stage]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tributary-screens-")))
        # Inside a run of the tests with the data that their browsers have, too.
        if not databases.has_run_folder():
            databases.make_run_folder()
            stack.callback(databases.remove_run_folder)
        seeded, world = seeded_once("tests.support.browser.seed")
        shutil.copytree(seeded, folder / "data")
        fake = FakeUpstream.start_in_thread(speed=SPEED)
        stack.callback(fake.stop)
        site = SceneSite(folder / "data", world, fake)
        stack.callback(site.close)

        def open_setup_site() -> str:
            fresh = open_empty_site(folder / "empty")
            stack.callback(fresh.close)
            return setup_link(fresh)

        def open_mail_site() -> str:
            copy = open_strict_site(folder / "copy", site)
            stack.callback(copy.close)
            return copy.url

        sign_in = stack.enter_context(oauth_server())
        provider = stack.enter_context(company())
        stage = Stage(site, open_setup_site, open_mail_site, (sign_in.mcp, provider.issuer))
        stage.furnish()
        shutil.copytree(site.folder, folder / "copy")
        site.start()
        stage.test_servers()
        yield stage


@contextlib.contextmanager
def company() -> Iterator[FakeProvider]:
    """A provider at which an administrator tries to sign in."""
    claims = {
        "sub": "7f3c9a52",
        "email": "ada@example.org",
        "email_verified": True,
        "name": "Ada Lovelace",
        "groups": ["/river", "/divers", "/staff/engineering/measurement"],
    }
    provider = FakeProvider(claims=claims)
    server = fake_provider.serve(provider)
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()


class _Mailbox:
    """Accepts every mail."""

    async def handle_DATA(self, *_: object) -> str:
        return "250 OK"


def open_strict_site(folder: Path, like: SceneSite) -> SceneSite:
    """A copy that sends mail, and that requires a second factor of administrators."""
    site = SceneSite(folder, like.world, like.fake)
    mailbox = Controller(_Mailbox(), hostname="127.0.0.1", port=free_port())
    mailbox.start()
    site.start(
        EMAIL_HOST="127.0.0.1",
        EMAIL_PORT=str(mailbox.port),
        SECOND_FACTOR="administrators",
    )
    return site


def open_empty_site(folder: Path) -> Site:
    """One that nobody has set up."""
    folder.mkdir()
    shutil.copy(databases.migrated_sqlite(), folder / "tributary.sqlite3")
    site = Site(folder, None, None)  # type: ignore[arg-type]  # nothing is seeded
    site.start()
    return site


def setup_link(site: Site) -> str:
    path = _manage(site.folder, "setup_link").strip().partition("/setup/")[2]
    return f"http://127.0.0.1:{site.port}/setup/{path}"


def _manage(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environment(folder),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
