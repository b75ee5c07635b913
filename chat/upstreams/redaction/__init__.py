"""Redaction: known credentials, and patterns of unknown ones.

It must not import Django.
"""

from chat.upstreams.redaction.known_secrets import MARK, Redactor, credentials_of, secret_texts
from chat.upstreams.redaction.patterns import redact_patterns

__all__ = ["MARK", "Redactor", "credentials_of", "redact_patterns", "secret_texts"]
