"""The tools of a team, and what executes them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat.core import encryption
from chat.models.team import Team


class ToolKind(models.TextChoices):
    """The kinds of tools: a person gives the result, or Tributary runs the call."""

    PERSON = "person", gettext_lazy("A person gives the result")
    HTTP = "http", gettext_lazy("HTTP request")
    MCP = "mcp", gettext_lazy("MCP server")
    SEARCH = "search", gettext_lazy("Web search")
    PAGE = "page", gettext_lazy("Read a page")
    # No tool of a team has one of these kinds: they are functions of Tributary itself, which a model gets where files are
    # attached for it to read, and where skills are switched on.
    FILES = "files", gettext_lazy("Read attached files")
    SKILLS = "skills", gettext_lazy("Load skills")


# The kinds that are functions of Tributary itself. Nobody approves their calls, and repeating one does no harm.
OWN_KINDS = (ToolKind.FILES, ToolKind.SKILLS)


class ToolRule(models.TextChoices):
    """The rule by which a call runs without an approval. Of the tools that a person answers it says only whether they
    are off."""

    OFF = "off", gettext_lazy("Off")
    ASK = "ask", gettext_lazy("Ask each time")
    # Nobody but the person who asked reads the conversation.
    AUTO_PRIVATE = "auto_private", gettext_lazy("Run automatically in private conversations")
    AUTO = "auto", gettext_lazy("Run automatically")


class SearchService(models.TextChoices):
    """The services that answer the searches of a tool of kind ``search``."""

    SEARXNG = "searxng", "SearXNG"
    BRAVE = "brave", gettext_lazy("Brave Search")
    TAVILY = "tavily", "Tavily"


class ToolCredentials(models.TextChoices):
    """The credential that the calls of a server use."""

    NONE = "none", gettext_lazy("None")
    SHARED = "shared", gettext_lazy("A key for everybody")
    PERSON = "person", gettext_lazy("Each person signs in")


class ToolServer(models.Model):
    """An MCP server whose tools a team uses."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="tool_servers")
    name = models.CharField(max_length=80)
    address = models.CharField(max_length=500)
    credentials = models.CharField(
        max_length=8,
        choices=ToolCredentials.choices,
        default=ToolCredentials.NONE,
        db_default=ToolCredentials.NONE,
    )
    # {name: value}, encrypted: a key that everybody's calls use.
    sealed_headers = models.TextField(blank=True, editable=False)
    # The person with whose account the tools are read next, if each person signs in.
    listed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        editable=False,
    )
    is_enabled = models.BooleanField(default=True)
    # True if only people of its groups may use its tools. Without any group left that is nobody.
    is_for_groups = models.BooleanField(default=False, db_default=False)
    groups = models.ManyToManyField("chat.Group", blank=True, related_name="tool_servers")
    # The version of the protocol that it spoke last.
    protocol = models.CharField(max_length=40, blank=True)
    # The steps of the last test: [{"name", "outcome", "text"}].
    test = models.JSONField(default=list, blank=True)
    tested_at = models.DateTimeField(null=True, blank=True)
    # From then on the list of tools is stale, and is read again.
    list_expires_at = models.DateTimeField(null=True, blank=True, editable=False)
    # The list that was read last is for the person alone with whose account it was read, whoever reads the next one.
    has_private_list = models.BooleanField(default=False, db_default=False, editable=False)
    list_person = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        editable=False,
    )
    # A test that a runner is to make, and since when one makes it.
    test_queued_at = models.DateTimeField(null=True, blank=True, editable=False)
    test_claimed_at = models.DateTimeField(null=True, blank=True, editable=False)
    is_demo = models.BooleanField(default=False, editable=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, editable=False
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["team", "name"], name="tool_server_name_unique")
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def has_headers(self) -> bool:
        return bool(self.sealed_headers)

    @property
    def signs_in_people(self) -> bool:
        """True if each person uses an account of their own."""
        return self.credentials == ToolCredentials.PERSON

    def set_headers(self, headers: Mapping[str, str]) -> None:
        """Encrypts the headers into the row (not saved) in place of the stored ones."""
        self.sealed_headers = _seal(headers, self._context)

    def open_headers(self) -> dict[str, str]:
        """The headers in plain text, for the request about to be made. Raises ``DecryptionError``."""
        return _open(self.sealed_headers, self._context)

    @property
    def _context(self) -> str:
        return f"tool-server:{self.public_id}:headers"


class Tool(models.Model):
    """The definition of a tool that a model gets. ``schema`` is a JSON Schema of type object."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="tools")
    # Every API accepts these: letters, digits, underscores and dashes, at most 64.
    name = models.CharField(max_length=64)
    description = models.TextField(blank=True)
    schema = models.JSONField(default=dict, blank=True)
    kind = models.CharField(
        max_length=8,
        choices=ToolKind.choices,
        default=ToolKind.PERSON,
        db_default=ToolKind.PERSON,
    )
    rule = models.CharField(
        max_length=16, choices=ToolRule.choices, default=ToolRule.ASK, db_default=ToolRule.ASK
    )
    # The server that runs it, and its name there.
    server = models.ForeignKey(
        ToolServer, null=True, blank=True, on_delete=models.CASCADE, related_name="tools"
    )
    remote_name = models.CharField(max_length=200, blank=True, db_default="")
    # Properties of its calls, as its server or its author states them.
    is_read_only = models.BooleanField(default=False, db_default=False)
    is_idempotent = models.BooleanField(default=False, db_default=False)
    is_destructive = models.BooleanField(default=False, db_default=False)
    # A digest of description, schema and the three above when somebody switched it on. A server's tool that is
    # another one since then is off until somebody has seen it: ``offered`` is what the server says now.
    seen_digest = models.CharField(max_length=64, blank=True, db_default="")
    offered = models.JSONField(null=True, blank=True)
    # Results of calls with somebody's account stay with that person, unless they share them.
    keeps_private = models.BooleanField(default=False, db_default=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, editable=False
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["team", "name"], name="tool_name_unique")]

    def __str__(self) -> str:
        return self.name

    @property
    def may_be_on(self) -> bool:
        """True if a conversation may use it."""
        return self.rule != ToolRule.OFF and (self.server is None or self.server.is_enabled)

    @property
    def runs_here(self) -> bool:
        """True if Tributary runs its calls."""
        return self.kind != ToolKind.PERSON

    @property
    def is_personal(self) -> bool:
        """True if its calls use the account of one person."""
        return self.server is not None and self.server.signs_in_people


class ToolRequest(models.Model):
    """The HTTP request that a tool of kind ``http`` is. ``{name}`` in the address stands for an argument; the
    other arguments are its query, or the members of its JSON body. Of a tool of kind ``search`` it is the address
    and the key of its service."""

    tool = models.OneToOneField(Tool, on_delete=models.CASCADE, related_name="request")
    method = models.CharField(max_length=8, default="GET")
    address = models.CharField(max_length=1000)
    service = models.CharField(
        max_length=16, choices=SearchService.choices, blank=True, db_default=""
    )
    # {name: value}, encrypted.
    sealed_headers = models.TextField(blank=True, editable=False)

    def __str__(self) -> str:
        return f"{self.method} {self.address}"

    @property
    def has_headers(self) -> bool:
        return bool(self.sealed_headers)

    def set_headers(self, headers: Mapping[str, str]) -> None:
        """Encrypts the headers into the row (not saved) in place of the stored ones."""
        self.sealed_headers = _seal(headers, self._context)

    def open_headers(self) -> dict[str, str]:
        """The headers in plain text, for the request about to be made. Raises ``DecryptionError``."""
        return _open(self.sealed_headers, self._context)

    @property
    def _context(self) -> str:
        return f"tool:{self.tool.public_id}:headers"


def _seal(headers: Mapping[str, str], context: str) -> str:
    return encryption.encrypt(json.dumps(dict(headers)), context=context) if headers else ""


def _open(sealed: str, context: str) -> dict[str, str]:
    return dict(json.loads(encryption.decrypt(sealed, context=context))) if sealed else {}
