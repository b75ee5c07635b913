"""The MCP servers of a team and the rules of their tools, as people change them.

The caller has fetched every object through ``chat.access``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext

from chat import access
from chat.core import notify
from chat.core.errors import ActionRefused, storage_errors
from chat.core.text import check_name, one_line
from chat.events import JsonObject
from chat.models import (
    AuditEvent,
    Team,
    Tool,
    ToolAccount,
    ToolChoice,
    ToolCredentials,
    ToolRule,
    ToolServer,
    User,
)
from chat.tools.command_lines import is_command
from chat.tools.definitions import rule_and_digest, stored_definition, withdraw_allowances
from chat.tools.mcp.listing import digest_of
from chat.tools.server_headers import check_address
from chat.tools.sign_in.ending import end_accounts

# Published when a test is queued.
TESTS = "tool_servers.tests"
NAME_LENGTH = 80
# More are a mistake, and each is read again from time to time.
MOST_SERVERS = 50
# The value of `Tool.offered` when the server no longer has the tool.
GONE: JsonObject = {"is_gone": True}


def add_server(
    user: User | None,
    team: Team,
    *,
    name: str,
    address: str,
    headers: Mapping[str, str],
    signs_in_people: bool = False,
    is_demo: bool = False,
) -> ToolServer:
    """Adds a server and queues its test. With ``signs_in_people`` each person uses an account of their own, and there are
    no headers. Raises ``ActionRefused``."""
    name, address = _checked_name(name), _checked_address(user, address)
    server = ToolServer(
        team=team, name=name, address=address, created_by=user, is_demo=is_demo, **_fresh_test()
    )
    _set_credentials(server, headers, signs_in_people=signs_in_people)
    server.listed_by = user if signs_in_people else None
    with storage_errors(), _only_one_called(name), transaction.atomic():
        if team.tool_servers.count() >= MOST_SERVERS:
            raise ActionRefused(
                gettext("A team can have up to %(limit)d servers.") % {"limit": MOST_SERVERS}
            )
        server.save()
        _audit(user, "tool_server.created", server)
        notify.publish_after_commit(TESTS)
    return server


def change_server(
    user: User,
    server: ToolServer,
    *,
    name: str,
    address: str,
    headers: Mapping[str, str] | None,
    signs_in_people: bool = False,
) -> bool:
    """Changes a server and queues its test; without ``headers`` the stored ones are kept. With another address its
    tools are off until somebody has seen them again, and the stored headers and the accounts of people, which belong to
    the old one, are removed: whether headers were is returned. Raises ``ActionRefused``."""
    name, address = _checked_name(name), _checked_address(user, address, stored=server.address)
    with storage_errors(), _only_one_called(name), transaction.atomic():
        stored = ToolServer.objects.select_for_update().filter(pk=server.pk).first()
        if stored is None:
            raise ActionRefused(gettext("This server was removed."))
        is_moved = stored.address != address
        are_dropped = is_moved and headers is None and stored.has_headers
        stored.name, stored.address = name, address
        if headers is not None or is_moved or signs_in_people:
            _set_credentials(stored, headers or {}, signs_in_people=signs_in_people)
        elif stored.signs_in_people:
            _set_credentials(stored, {}, signs_in_people=False)
        if is_moved or not signs_in_people:
            end_accounts(stored.accounts.all())
            stored.sign_ins.all().delete()
            stored.listed_by = None
        # Only a test or a sign-in for the list changes whose account reads it.
        if signs_in_people and stored.listed_by is None:
            stored.listed_by = user
        for field, value in _fresh_test().items():
            setattr(stored, field, value)
        stored.save()
        if is_moved:
            stored.tools.update(rule=ToolRule.OFF, seen_digest="")
            ToolChoice.objects.filter(tool__server=stored, is_allowed=True).delete()
        _audit(user, "tool_server.changed", stored)
        notify.publish_after_commit(TESTS)
    server.refresh_from_db()
    return are_dropped


def remove_server(user: User, server: ToolServer) -> None:
    """Deletes a server and its tools, also from all conversations."""
    with storage_errors(), transaction.atomic():
        # Locked first, as a sign-in that comes back does it.
        ToolServer.objects.select_for_update().filter(pk=server.pk).first()
        end_accounts(ToolAccount.objects.filter(server=server.pk))
        removed, _ = ToolServer.objects.filter(pk=server.pk).delete()
        if removed:
            _audit(user, "tool_server.removed", server)


def set_enabled(user: User, server: ToolServer, *, is_enabled: bool) -> None:
    """Tools of a disabled server are neither offered nor called."""
    with storage_errors(), transaction.atomic():
        rows = ToolServer.objects.filter(pk=server.pk, is_enabled=not is_enabled)
        if rows.update(is_enabled=is_enabled):
            verb = "tool_server.enabled" if is_enabled else "tool_server.disabled"
            _audit(user, verb, server)


def _set_credentials(
    server: ToolServer, headers: Mapping[str, str], *, signs_in_people: bool
) -> None:
    """Sets the one credential that a server has (not saved). Raises ``ActionRefused``."""
    if is_command(server.address) and (headers or signs_in_people):
        raise ActionRefused(gettext("A command has no headers and no sign-in."))
    server.set_headers({} if signs_in_people else headers)
    if signs_in_people:
        server.credentials = ToolCredentials.PERSON
    else:
        server.credentials = ToolCredentials.SHARED if headers else ToolCredentials.NONE


def queue_test(server: ToolServer, user: User | None = None) -> None:
    """A runner connects to the server and reads its tools, as soon as one has time; with this person's account, if each
    person signs in."""
    with storage_errors(), transaction.atomic():
        is_read_by = user is not None and server.signs_in_people
        values = {**_fresh_test(), **({"listed_by": user} if is_read_by else {})}
        ToolServer.objects.filter(pk=server.pk).update(**values)
        notify.publish_after_commit(TESTS)


def _fresh_test() -> dict[str, object]:
    return {"test": [], "test_queued_at": timezone.now(), "test_claimed_at": None}


# --- rules of tools -------------------------------------------------------------------------------


def definition_of(tool: Tool) -> JsonObject:
    """The definition of the tool that the server has now."""
    return tool.offered if is_changed(tool) and tool.offered else stored_definition(tool)


def is_gone(tool: Tool) -> bool:
    return tool.offered == GONE


def is_changed(tool: Tool) -> bool:
    """Returns whether the server defines the tool in another way than when somebody switched it on."""
    return tool.offered is not None and not is_gone(tool)


def set_rule(
    user: User, tool: Tool, *, rule: str, digest: str, keeps_private: bool | None = None
) -> None:
    """Sets when the tool runs, and whether results of calls with accounts stay private unless they are shared. ``digest`` is that of the definition that the person has seen: it becomes the one that
    models get. Raises ``ActionRefused`` if the server has another one by now."""
    if rule not in ToolRule.values:
        raise ActionRefused(gettext("Choose when the tool may run."))
    with storage_errors(), transaction.atomic():
        stored = Tool.objects.select_for_update().filter(pk=tool.pk).first()
        if stored is None:
            raise ActionRefused(gettext("This tool was removed."))
        before = rule_and_digest(stored)
        is_shared_now = stored.keeps_private and keeps_private is False
        if rule != ToolRule.OFF:
            _take_definition(stored, rule, digest)
        stored.rule = rule
        if keeps_private is not None:
            stored.keeps_private = keeps_private
        stored.save()
        withdraw_allowances(stored, before)
        if is_shared_now:
            # People allowed its calls while results stayed private.
            ToolChoice.objects.filter(tool=stored, is_allowed=True).delete()
        AuditEvent.objects.record(
            user, "tool.changed", target=tool.team.name, tool=tool.name, rule=rule
        )
    tool.refresh_from_db()


def _take_definition(tool: Tool, rule: str, digest: str) -> None:
    if is_gone(tool):
        raise ActionRefused(gettext("The server no longer has this tool."))
    definition = definition_of(tool)
    if digest != digest_of(definition):
        raise ActionRefused(
            gettext("The server has changed this tool in the meantime. Look at it again.")
        )
    if definition["is_destructive"] and rule in (ToolRule.AUTO, ToolRule.AUTO_PRIVATE):
        raise ActionRefused(gettext("A tool that changes or deletes things has to ask each time."))
    for field, value in definition.items():
        setattr(tool, field, value)
    tool.seen_digest = digest
    tool.offered = None


def run_read_only_tools(user: User, server: ToolServer, digests: Mapping[str, str]) -> int:
    """Lets the tools run automatically of which the server says that they only read, as far as they are still those
    that the person has seen (``digests`` by public id). Returns their number."""
    done = 0
    for tool in access.listed_tools(user, server).select_related("team"):
        definition = definition_of(tool)
        digest = digests.get(str(tool.public_id))
        if definition["is_read_only"] and not is_gone(tool) and digest == digest_of(definition):
            set_rule(user, tool, rule=ToolRule.AUTO, digest=digest)
            done += 1
    return done


# --- checks ---------------------------------------------------------------------------------------


def _checked_name(text: str) -> str:
    name = one_line(text)
    if not name or len(name) > NAME_LENGTH:
        words = gettext("A name has 1 to %(limit)d characters.")
        raise ActionRefused(words % {"limit": NAME_LENGTH})
    try:
        check_name(name)
    except ValidationError as error:
        raise ActionRefused(str(error.messages[0])) from None
    return name


def may_use_commands(user: User) -> bool:
    """Commands run with the rights of the runner: only administrators choose them, also where others manage the team's servers."""
    return user.is_staff


def _checked_address(user: User | None, address: str, *, stored: str = "") -> str:
    address = check_address(address)
    if is_command(address) and address != stored and not (user and may_use_commands(user)):
        raise ActionRefused(gettext("Only administrators can use a command of this installation."))
    return address


@contextmanager
def _only_one_called(name: str) -> Iterator[None]:
    """Turns the conflict of two servers of one name into a sentence."""
    try:
        yield
    except IntegrityError:
        text = gettext("The team already has a server named %(name)s.")
        raise ActionRefused(text % {"name": name}) from None


def _audit(user: User | None, verb: str, server: ToolServer) -> None:
    AuditEvent.objects.record(
        user, verb, target=server.team.name, server=server.name, address=server.address
    )
