"""Background jobs of people: the queue, the worker in each runner, and the files of jobs."""
