"""All addresses that Django answers. Those of the consumers are in `project.asgi`."""

from django.contrib import admin
from django.urls import include, path

# Each feature lists its own. No two of them have an address in common.
FEATURES = (
    *("conversations", "participants", "message_queue", "comments", "organization", "projects"),
    *("search", "run_details", "files", "artifacts", "questions", "inbox", "mentions", "tools"),
    *("exports", "transfers", "presence", "drafts", "forks", "prompts", "presets", "feedback"),
    *("context", "compare", "favorites", "skills", "sessions", "profile"),
    *("accounts", "identity", "access_reasons", "servers", "titles", "health", "web"),
)

urlpatterns = [
    path("admin/", admin.site.urls),
    *(path("", include(f"chat.{feature}.urls")) for feature in FEATURES),
]

handler400 = "chat.web.views.bad_request"
handler403 = "chat.web.views.forbidden"
handler404 = "chat.web.views.not_found"
handler500 = "chat.web.views.broken"
