"""The addresses of what an answer waits for."""

from django.urls import URLPattern, path

from chat.views import questions

urlpatterns: list[URLPattern] = [
    path("q/<uuid:public_id>/answer/", questions.answer, name="question_answer"),
    path("q/<uuid:public_id>/claim/", questions.claim, name="question_claim"),
    path("q/<uuid:public_id>/refuse/", questions.refuse, name="question_refuse"),
    path("q/<uuid:public_id>/release/", questions.release, name="question_release"),
    path("r/<uuid:public_id>/go-on/", questions.go_on, name="run_go_on"),
]
