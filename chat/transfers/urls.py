"""Addresses of exports and imports."""

from django.urls import URLPattern, path

from chat.transfers import views

urlpatterns: list[URLPattern] = [
    path("settings/data/", views.page, name="data"),
    path("settings/data/exports/", views.jobs, {"name": "exports"}, name="exports"),
    path("settings/data/imports/", views.jobs, {"name": "imports"}, name="imports"),
    path("settings/data/export/", views.export, name="export_start"),
    path("settings/data/import/", views.import_file, name="import_file"),
    path("settings/data/upload/", views.upload, name="import_upload"),
    path("settings/data/undo/<uuid:public_id>/", views.undo, name="import_undo"),
    path("settings/data/<uuid:public_id>/file/", views.download, name="export_file"),
    path("settings/data/<uuid:public_id>/cancel/", views.cancel, name="job_cancel"),
    path("settings/data/<uuid:public_id>/delete/", views.remove, name="job_delete"),
    path("settings/data/<uuid:public_id>/check/", views.check, name="import_check"),
    path("settings/data/<uuid:public_id>/confirm/", views.confirm, name="import_confirm"),
    path("settings/data/<uuid:public_id>/piece/<int:number>/", views.piece, name="import_piece"),
    path("settings/data/<uuid:public_id>/uploaded/", views.upload_end, name="import_upload_end"),
]
