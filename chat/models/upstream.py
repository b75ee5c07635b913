"""A configured LLM server."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy

from chat.core import encryption

if TYPE_CHECKING:
    from chat.models.model_grant import ModelGrant

# The types that servers give models which hold no conversation: LM Studio, Mistral, Together, Venice, Vercel's
# AI Gateway. Decision models answer fixed questions with probabilities.
_OTHER_TYPES = {
    "audio",
    "decision",
    "embedding",
    "embeddings",
    "evaluation",
    "image",
    "moderation",
    "rerank",
    "reranker",
    "transcribe",
    "transcription",
    "tts",
    "video",
}
# Names of such models, for servers that give no type: text-embedding-3-small, bge-reranker-v2-m3, whisper-1.
_OTHER_NAME = re.compile(
    r"embed|rerank|(?<![a-z])(?:whisper|tts|transcribe|moderation|dall-e)(?![a-z])", re.IGNORECASE
)
# Inputs of a model besides text, by the members with which servers say so.
_IMAGE_FLAGS = ("vision", "supports_image_input", "supports_vision")


def _detail_of(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    detail = entry.get("detail")
    return detail if isinstance(detail, dict) else {}


def is_chat_model(entry: Mapping[str, Any]) -> bool:
    """Returns whether a model of a server's list can hold a conversation, as far as the server tells."""
    kind = _detail_of(entry).get("type")
    return not (isinstance(kind, str) and kind.lower() in _OTHER_TYPES)


def is_offered(entry: Mapping[str, Any]) -> bool:
    """Returns whether people can choose a model: as an administrator decided; else, where the server gives no
    type, unless its name is that of another kind of model."""
    if not is_chat_model(entry):
        return False
    if "is_off" in entry:
        return not entry["is_off"]
    has_type = isinstance(_detail_of(entry).get("type"), str)
    return has_type or bool(entry.get("is_typed")) or not _OTHER_NAME.search(str(entry["id"]))


def inputs_of(entry: Mapping[str, Any]) -> list[str]:
    """The inputs of a model besides text, as the server says, of "image", "audio", "video" and "file":
    ``architecture.input_modalities`` (OpenRouter), ``capabilities.vision`` (LM Studio, Mistral) and
    flags of other servers."""
    detail = _detail_of(entry)
    architecture, capabilities = detail.get("architecture"), detail.get("capabilities")
    modalities = architecture.get("input_modalities") if isinstance(architecture, dict) else None
    names = list(modalities) if isinstance(modalities, list) else []
    flags = {**detail, **capabilities} if isinstance(capabilities, dict) else detail
    if detail.get("type") == "vlm" or any(flags.get(flag) is True for flag in _IMAGE_FLAGS):
        names.append("image")
    return [name for name in ("image", "audio", "video", "file") if name in names]


# Members with which servers say how many tokens a model can read: LM Studio and Mistral, OpenRouter, vLLM, Groq,
# Anthropic, Google.
_CONTEXT_MEMBERS = (
    *("max_context_length", "context_length", "max_model_len", "context_window"),
    *("max_input_tokens", "inputTokenLimit"),
)


def context_tokens_of(entry: Mapping[str, Any]) -> int | None:
    """How many tokens a model can read, if the server says so."""
    detail = _detail_of(entry)
    found = (detail.get(member) for member in _CONTEXT_MEMBERS)
    return next((each for each in found if type(each) is int and each > 0), None)


class Upstream(models.Model):
    """Base URL, encrypted key, dialect, models and limits. Only administrators change it."""

    public_id = models.UUIDField(
        gettext_lazy("public ID"), default=uuid.uuid4, unique=True, editable=False
    )
    name = models.CharField(gettext_lazy("name"), max_length=80, unique=True)
    dialect = models.CharField(gettext_lazy("API type"), max_length=40)
    base_url = models.CharField(gettext_lazy("address"), max_length=500)
    sealed_key = models.TextField(blank=True, editable=False)
    key_set_at = models.DateTimeField(null=True, blank=True, editable=False)
    concurrency_limit = models.PositiveIntegerField(
        gettext_lazy("concurrent runs"),
        default=4,
        help_text=gettext_lazy("Further runs are queued."),
    )
    is_enabled = models.BooleanField(gettext_lazy("enabled"), default=True)
    # Active runs continue, and nothing new starts: new runs wait in the queue.
    is_draining = models.BooleanField(gettext_lazy("paused"), default=False)
    is_demo = models.BooleanField(default=False, editable=False)
    # True if teams need a grant to use it (`ModelGrant`). A column, so that a server for everyone costs no query.
    is_limited = models.BooleanField(default=False, db_default=False, editable=False)
    # Settings of the dialect, as its `options` declare them.
    options = models.JSONField(default=dict, blank=True)
    # The default parameters of a request, by the names of the dialect's parameters.
    parameters = models.JSONField(default=dict, blank=True)
    # Options that contain credentials, such as headers for MCP servers, encrypted as one object.
    sealed_options = models.TextField(blank=True, editable=False)
    # [{"id", "label", "detail", "is_typed"}]: from the upstream's list, or typed by hand. Models
    # that an administrator switched have "is_off", too.
    model_list = models.JSONField(default=list, blank=True)
    models_listed_at = models.DateTimeField(null=True, blank=True, editable=False)
    # When a runner reads the list again (`chat.servers.list_refresh`): without a time an hour after it was read. While
    # a runner reads it, it is the time after which that runner counts as lost.
    models_due_at = models.DateTimeField(null=True, blank=True, editable=False)
    # The failures since the list was read, the time of the last one, and the reason in words.
    models_failures = models.PositiveSmallIntegerField(default=0, db_default=0, editable=False)
    models_failed_at = models.DateTimeField(null=True, blank=True, editable=False)
    models_error = models.TextField(blank=True, default="", db_default="", editable=False)
    # Steps of the last connection test.
    probe = models.JSONField(default=list, blank=True, editable=False)
    probed_at = models.DateTimeField(
        gettext_lazy("last tested"), null=True, blank=True, editable=False
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        editable=False,
        verbose_name=gettext_lazy("created by"),
    )
    created_at = models.DateTimeField(gettext_lazy("created"), default=timezone.now, editable=False)

    # The grants of the person and teams for whom `chat.access` has loaded a limited server. ``None`` for a server for
    # everyone, and for the administration, where no grant counts.
    known_grants: Sequence[ModelGrant] | None = None

    class Meta:
        verbose_name = gettext_lazy("server")
        verbose_name_plural = gettext_lazy("servers")

    def __str__(self) -> str:
        return self.name

    @property
    def chat_models(self) -> list[dict[str, Any]]:
        """The entries of its list that people can choose."""
        return [
            entry
            for entry in self.model_list
            if is_offered(entry) and self._is_granted(entry["id"])
        ]

    def is_off(self, model: str) -> bool:
        """Returns whether an administrator disabled this model, or doesn't let this person or team use it."""
        if not self._is_granted(model):
            return True
        return any(entry.get("is_off") and entry["id"] == model for entry in self.model_list)

    def _is_granted(self, model: str) -> bool:
        grants = self.known_grants
        return grants is None or any(grant.allows(model) for grant in grants)

    @property
    def _key_context(self) -> str:
        return f"upstream:{self.public_id}:key"

    @property
    def has_key(self) -> bool:
        return bool(self.sealed_key)

    def set_key(self, key: str) -> None:
        """Encrypts ``key`` into the row (not saved); an empty one clears it."""
        self.sealed_key = encryption.encrypt(key, context=self._key_context) if key else ""
        self.key_set_at = timezone.now() if key else None

    def open_key(self) -> str:
        """The credential in plain text, for the request about to be made. Raises
        ``DecryptionError``."""
        if not self.sealed_key:
            return ""
        return encryption.decrypt(self.sealed_key, context=self._key_context)

    @property
    def _options_context(self) -> str:
        return f"upstream:{self.public_id}:options"

    def set_secret_options(self, options: Mapping[str, object]) -> None:
        """Encrypts these options into the row (not saved) in place of the stored ones."""
        text = json.dumps(dict(options)) if options else ""
        self.sealed_options = (
            encryption.encrypt(text, context=self._options_context) if text else ""
        )

    def open_secret_options(self) -> dict[str, object]:
        """The options that contain credentials, in plain text. Raises ``DecryptionError``."""
        if not self.sealed_options:
            return {}
        text = encryption.decrypt(self.sealed_options, context=self._options_context)
        return dict(json.loads(text))

    def all_options(self) -> dict[str, object]:
        """Every option of the dialect, for the request about to be made. Raises ``DecryptionError``."""
        return {**self.options, **self.open_secret_options()}


class FavoriteModel(models.Model):
    """A model that a person has marked with a star. One that its server no longer lists is kept, because it may come
    back, and isn't shown."""

    user = models.ForeignKey(
        # The constraint's index does this, too.
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="favorite_models",
    )
    upstream = models.ForeignKey(Upstream, on_delete=models.CASCADE, related_name="+")
    model = models.CharField(max_length=200)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "upstream", "model"], name="favorite_model_unique"
            )
        ]

    def __str__(self) -> str:
        return f"{self.user_id}: {self.model}"


class SeenEvent(models.Model):
    """A kind of event that this upstream has sent, counted over all its runs."""

    upstream = models.ForeignKey(Upstream, on_delete=models.CASCADE, related_name="seen_events")
    # The kind on the wire: the event's name, the payload's type, or the kind of chunk.
    name = models.CharField(max_length=200)
    is_known = models.BooleanField(default=True)
    count = models.PositiveBigIntegerField(default=0)
    # The first one of an unknown kind, credentials redacted, cut at a few thousand characters. For a
    # conversation only the names and types of its members, because administrators see it.
    sample = models.TextField(blank=True)
    first_seen_at = models.DateTimeField(default=timezone.now)
    last_seen_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["upstream", "name"], name="seen_event_unique")
        ]

    def __str__(self) -> str:
        return f"{self.upstream_id}: {self.name} ×{self.count}"
