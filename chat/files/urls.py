"""Addresses of files: stored with answers, attached by people, or fetched from elsewhere."""

from django.urls import URLPattern, path

from chat.files import remote_images, unsent_views, views, zips

urlpatterns: list[URLPattern] = [
    path("c/<uuid:public_id>/files/", views.page, name="conversation_files"),
    path("c/<uuid:public_id>/files.zip", zips.conversation_zip, name="conversation_zip"),
    path("unsent/<slug:place>/", unsent_views.add, name="unsent_add"),
    path("unsent/<slug:place>/<uuid:public_id>/", unsent_views.file, name="unsent_file"),
    path("unsent/<slug:place>/<uuid:public_id>/chip/", unsent_views.chip, name="unsent_chip"),
    path("unsent/<slug:place>/<uuid:public_id>/read/", unsent_views.read_again, name="unsent_read"),
    path("unsent/<slug:place>/<uuid:public_id>/remove/", unsent_views.remove, name="unsent_remove"),
    path("f/<uuid:public_id>/", views.file, name="file"),
    path("f/<uuid:public_id>/source/", views.file_source, name="file_source"),
    path("f/<uuid:public_id>/delete/", views.delete, name="file_delete"),
    path(
        "r/<uuid:public_id>/media/<int:choice>/<int:item>/<int:position>/",
        views.medium,
        name="run_medium",
    ),
    path("k/<uuid:public_id>/<int:number>/zip/", zips.mockup_zip, name="mockup_zip"),
    path("r/<uuid:public_id>/pictures/", remote_images.pictures, name="run_pictures"),
]
