"""All addresses that Django answers; the consumers' are in ``project.asgi``."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", include("chat.views.urls")),
]

handler400 = "chat.views.errors.bad_request"
handler403 = "chat.views.errors.forbidden"
handler404 = "chat.views.errors.not_found"
handler500 = "chat.views.errors.broken"
