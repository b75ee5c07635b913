"""Reads untrusted files in a child process that has nothing but the file and a pipe.

`parent` starts it and takes what it gives; `child` runs there and imports neither Django nor a
package of the project, except the reader that it is told to run; `seccomp` shuts the system off.
"""
