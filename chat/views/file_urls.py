"""The addresses of files: what answers made, and what people attached."""

from django.urls import URLPattern, path

from chat.views import files

urlpatterns: list[URLPattern] = [
    path("c/<uuid:public_id>/files/", files.page, name="conversation_files"),
    path("f/<uuid:public_id>/", files.file, name="file"),
    path("f/<uuid:public_id>/source/", files.file_source, name="file_source"),
    path("a/<uuid:public_id>/<int:number>/", files.artifact, name="artifact"),
    path("a/<uuid:public_id>/<int:number>/raw/", files.artifact_raw, name="artifact_raw"),
]
