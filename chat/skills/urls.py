"""Addresses of skills."""

from django.urls import URLPattern, path

from chat.skills import views

urlpatterns: list[URLPattern] = [
    path("skills/", views.skills, name="skills"),
    path("skills/import/", views.upload, name="skill_import"),
    path("skills/import/preview/", views.preview, name="skill_preview"),
    path("skills/import/cancel/", views.cancel, name="skill_import_cancel"),
    path("skills/<uuid:public_id>/", views.skill, name="skill"),
    path("skills/<uuid:public_id>/edit/", views.edit, name="skill_edit"),
    path("skills/<uuid:public_id>/file/", views.file, name="skill_file"),
    path("skills/<uuid:public_id>/download/", views.download, name="skill_download"),
    path("skills/<uuid:public_id>/versions/", views.versions, name="skill_versions"),
    path("skills/<uuid:public_id>/use/", views.use_version, name="skill_use_version"),
    path("skills/<uuid:public_id>/delete/", views.delete, name="skill_delete"),
]
