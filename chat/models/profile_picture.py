"""Profile pictures, as they were encoded again after the upload."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from chat.models.file_content import FileContent


class ProfilePicture(models.Model):
    """A person's picture. It is a row of its own, because each request reads the user, who has only its
    version (`User.picture_version`)."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="picture"
    )
    content = models.ForeignKey(FileContent, on_delete=models.PROTECT, related_name="pictures")

    def __str__(self) -> str:
        return f"picture of {self.user_id}"
