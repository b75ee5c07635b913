"""The template tag that tells whether this installation still needs its first administrator."""

from django import template

from chat.accounts.actions.setup import needs_setup

register = template.Library()
register.simple_tag(needs_setup)
