"""The addresses of files: what answers made, and what people attached."""

from django.urls import URLPattern, path

from chat.views import artifacts, files, mockups, previews, zips

urlpatterns: list[URLPattern] = [
    path("c/<uuid:public_id>/files/", files.page, name="conversation_files"),
    path("c/<uuid:public_id>/files.zip", zips.conversation, name="conversation_zip"),
    path("f/<uuid:public_id>/", files.file, name="file"),
    path("f/<uuid:public_id>/source/", files.file_source, name="file_source"),
    path(
        "r/<uuid:public_id>/media/<int:choice>/<int:item>/<int:position>/",
        files.medium,
        name="run_medium",
    ),
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
    path("k/<uuid:public_id>/<int:number>/zip/", zips.mockup, name="mockup_zip"),
    path("r/<uuid:public_id>/mockups/<int:seq>/", mockups.made, name="mockup_made"),
    path("preview/<str:token>/", previews.preview, name="preview"),
    path("preview/<str:token>/<path:path>", previews.preview, name="preview_file"),
]
