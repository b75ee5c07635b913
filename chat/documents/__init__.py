"""Documents: files whose text a model is told, read in a child process, once for all files with the same bytes."""
