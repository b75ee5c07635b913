"""The text for an object that a user may not see."""

from __future__ import annotations

from django.utils.translation import gettext_lazy

# The same for what does not exist and for what belongs to somebody else.
NOT_HERE = gettext_lazy("This doesn’t exist, or you don’t have access to it.")
