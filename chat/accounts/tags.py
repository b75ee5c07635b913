"""The template tag that tells whether this installation still needs its first administrator."""

from allauth.mfa.models import Authenticator
from django import template

from chat.accounts.actions.setup import needs_setup

register = template.Library()
register.simple_tag(needs_setup)


@register.simple_tag
def has_passkeys() -> bool:
    """True once anybody has a passkey: before, the sign-in page doesn't offer it."""
    return Authenticator.objects.filter(type=Authenticator.Type.WEBAUTHN).exists()
