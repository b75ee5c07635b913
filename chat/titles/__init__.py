"""Titles of conversations that a model writes, where administrators have chosen one."""
