"""Reads untrusted files in a child process that has nothing but the file and a pipe.

`parent` starts it and reads its output; `child` runs there and imports neither Django nor a package
of the project, except the given reader; `seccomp` blocks system calls.
"""
