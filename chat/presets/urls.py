"""Addresses of presets."""

from django.urls import URLPattern, path

from chat.presets import views

urlpatterns: list[URLPattern] = [
    path("presets/", views.presets, name="presets"),
    path("presets/new/", views.new, name="preset_new"),
    path("presets/save/", views.save, name="preset_save"),
    path("presets/<uuid:public_id>/", views.preset, name="preset"),
    path("presets/<uuid:public_id>/choose/", views.choose, name="preset_choose"),
    path("presets/<uuid:public_id>/versions/", views.versions, name="preset_versions"),
    path("presets/<uuid:public_id>/use/", views.use_version, name="preset_use_version"),
    path("presets/<uuid:public_id>/default/", views.make_default, name="preset_default"),
    path("presets/<uuid:public_id>/no-default/", views.remove_default, name="preset_no_default"),
    path("presets/<uuid:public_id>/delete/", views.delete, name="preset_delete"),
]
