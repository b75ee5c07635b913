"""The API for programs, in the shape of LM Studio's."""
