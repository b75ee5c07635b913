"""The page on which people export and import conversations, and follow these jobs."""
