"""Order among conversations: pins, archive, trash, temporary conversations."""
