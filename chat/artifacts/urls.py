"""Addresses of artifacts, mockups and their previews.

A mockup as ZIP is in `chat.files`, beside the ZIP of a conversation.
"""

from django.urls import URLPattern, path

from chat.artifacts.views import artifacts, mockups, previews

urlpatterns: list[URLPattern] = [
    path("a/<uuid:public_id>/<int:number>/", artifacts.artifact, name="artifact"),
    path("a/<uuid:public_id>/<int:number>/code/", artifacts.code, name="artifact_code"),
    path(
        "a/<uuid:public_id>/<int:number>/changes/",
        artifacts.difference,
        name="artifact_difference",
    ),
    path(
        "a/<uuid:public_id>/<int:number>/changes/<int:other>/",
        artifacts.difference,
        name="artifact_comparison",
    ),
    path("a/<uuid:public_id>/<int:number>/versions/", artifacts.versions, name="artifact_versions"),
    path("a/<uuid:public_id>/<int:number>/raw/", artifacts.raw, name="artifact_raw"),
    path("r/<uuid:public_id>/artifacts/<int:seq>/", artifacts.made, name="artifact_made"),
    path("k/<uuid:public_id>/<int:number>/", mockups.mockup, name="mockup"),
    path("k/<uuid:public_id>/<int:number>/files/", mockups.files, name="mockup_files"),
    path("r/<uuid:public_id>/mockups/<int:seq>/", mockups.made, name="mockup_made"),
    path("preview/<str:token>/", previews.preview, name="preview"),
    path("preview/<str:token>/<path:path>", previews.preview, name="preview_file"),
]
