"""The admin site in Tributary's name: its records, its doors, and who may come in."""

from __future__ import annotations

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode

from chat.access import NOT_HERE


class TributaryAdminSite(admin.AdminSite):
    """For administrators. Signing in and out and passwords are the application's own pages:
    one door, with one set of limits."""

    site_header = "Tributary administration"
    site_title = "Tributary"
    index_title = "Administration"
    empty_value_display = "–"
    enable_nav_sidebar = False

    def __init__(self, name: str = "admin") -> None:
        super().__init__(name)
        # Not at the top: the models are ready only when the first address is looked up.
        from chat.admin.registry import REGISTRY

        for model, model_admin in REGISTRY:
            self.register(model, model_admin)

    def login(
        self, request: HttpRequest, extra_context: dict[str, object] | None = None
    ) -> HttpResponse:
        """Sends a stranger to the sign-in page; to who is signed in the admin does not exist."""
        if self.has_permission(request):
            return redirect("admin:index")
        if request.user.is_authenticated:
            raise Http404(NOT_HERE)
        after = request.GET.get("next") or reverse("admin:index")
        return redirect(f"{reverse('account_login')}?{urlencode({'next': after})}")

    def logout(
        self, request: HttpRequest, extra_context: dict[str, object] | None = None
    ) -> HttpResponse:
        return redirect("account_logout")

    def password_change(
        self, request: HttpRequest, extra_context: dict[str, object] | None = None
    ) -> HttpResponse:
        return redirect("account_change_password")

    def autocomplete_view(self, request: HttpRequest) -> HttpResponse:
        """No field here uses it. Django answers for every relation nevertheless, and through it
        anybody's words could be searched without a row in the audit trail."""
        raise Http404(NOT_HERE)

    def get_app_list(
        self, request: HttpRequest, app_label: str | None = None
    ) -> list[dict[str, object]]:
        """Django's list of one application, in the groups and the order of the registry."""
        from chat.admin.registry import GROUPS

        apps = super().get_app_list(request, app_label)
        lines = {line["model"]: line for app in apps for line in app["models"]}
        for model, line in lines.items():
            line["summary"] = self.get_model_admin(model).summary
        groups = [
            {
                "name": name,
                "app_label": "chat",
                "app_url": reverse("admin:app_list", args=["chat"], current_app=self.name),
                "has_module_perms": True,
                "models": [lines[model] for model, _ in rows if model in lines],
            }
            for name, rows in GROUPS
        ]
        return [group for group in groups if group["models"]]
