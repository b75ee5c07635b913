"""Addresses of projects, and of moving conversations into and out of them."""

from django.urls import URLPattern, path

from chat.projects.views import files, members, moving, pages

urlpatterns: list[URLPattern] = [
    path("projects/", pages.projects, name="projects"),
    path("projects/new/", pages.new, name="project_new"),
    path("projects/move/", moving.move, name="projects_move"),
    path("projects/move-back/", moving.move_back, name="projects_move_back"),
    path("projects/<uuid:public_id>/", pages.project, name="project"),
    path(
        "projects/<uuid:public_id>/instructions/", pages.instructions, name="project_instructions"
    ),
    path("projects/<uuid:public_id>/settings/", pages.settings, name="project_settings"),
    path("projects/<uuid:public_id>/delete/", pages.delete, name="project_delete"),
    path("projects/<uuid:public_id>/files/", files.add, name="project_files"),
    path("projects/files/<uuid:public_id>/remove/", files.remove, name="project_file_remove"),
    path("projects/<uuid:public_id>/members/", members.members, name="project_members"),
    path(
        "projects/<uuid:public_id>/members/<uuid:person_id>/",
        members.change,
        name="project_member",
    ),
]
