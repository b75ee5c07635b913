"""The queue of messages: what is written while an answer runs is sent when it has ended."""
