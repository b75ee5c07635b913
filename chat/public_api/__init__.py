"""The LM Studio-shaped API for programs."""
