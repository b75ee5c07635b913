"""Many tables at once."""

from typing import Any

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations import CreateModel, SeparateDatabaseAndState
from django.db.migrations.state import ProjectState


class CreateModels(SeparateDatabaseAndState):
    """Creates models that may refer to each other in circles.

    As operations of their own they take twelve times as long: Django makes the classes of all related models
    anew for each of them.
    """

    def __init__(self, models: list[CreateModel]) -> None:
        super().__init__(state_operations=models)
        self.models = models

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        return type(self).__name__, [self.models], {}

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        # Without the classes, which are made again when they are needed.
        vars(state).pop("apps", None)
        super().state_forwards(app_label, state)

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        for each in self.models:
            schema_editor.create_model(to_state.apps.get_model(app_label, each.name))

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        for each in reversed(self.models):
            schema_editor.delete_model(from_state.apps.get_model(app_label, each.name))

    def describe(self) -> str:
        return f"Create {len(self.models)} models"
