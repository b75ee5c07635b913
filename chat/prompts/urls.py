"""Addresses of the library of prompts."""

from django.urls import URLPattern, path

from chat.prompts import views

urlpatterns: list[URLPattern] = [
    path("prompts/", views.prompts, name="prompts"),
    path("prompts/new/", views.new, name="prompt_new"),
    path("prompts/variables/", views.variables, name="prompt_variables"),
    path("prompts/find/", views.find, name="prompt_find"),
    path("prompts/<uuid:public_id>/", views.prompt, name="prompt"),
    path("prompts/<uuid:public_id>/versions/", views.versions, name="prompt_versions"),
    path("prompts/<uuid:public_id>/use/", views.use_version, name="prompt_use_version"),
    path("prompts/<uuid:public_id>/insert/", views.insert, name="prompt_insert"),
    path("prompts/<uuid:public_id>/delete/", views.delete, name="prompt_delete"),
]
