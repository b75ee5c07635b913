"""The addresses of questions, approvals and tool results."""

from django.urls import URLPattern, path

from chat.questions import input_views, views

urlpatterns: list[URLPattern] = [
    path("q/<uuid:public_id>/answer/", views.answer, name="question_answer"),
    path("q/<uuid:public_id>/claim/", views.claim, name="question_claim"),
    path("q/<uuid:public_id>/input/", input_views.answer_input, name="call_input"),
    path("q/<uuid:public_id>/refuse/", views.refuse, name="question_refuse"),
    path("q/<uuid:public_id>/release/", views.release, name="question_release"),
    path("r/<uuid:public_id>/go-on/", views.go_on, name="run_go_on"),
]
