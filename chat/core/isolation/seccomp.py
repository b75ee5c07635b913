"""The system calls that are left to a child: those that move bytes through its pipes, manage its own memory
and end it.

A filter of the kernel (Linux on x86-64 and ARM64), which can't be removed again, refuses all
others: a list of dangerous calls could be incomplete. On other systems the limit of open files
remains: without a new descriptor there is neither a file nor a connection. Source: the kernel's
Documentation/userspace-api/seccomp_filter.rst, numbers from its syscall tables.
"""

from __future__ import annotations

import ctypes
import platform
import signal
import struct
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_SECCOMP = 22
_PR_SET_NO_NEW_PRIVS = 38
_MODE_FILTER = 2

# Instructions of the classic packet filter: load a word, compare it, return.
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050001  # the last one with EPERM
# Offsets in the kernel's `seccomp_data`.
_NUMBER, _MACHINE = 0, 4

# Numbers that both machines share, because they are younger than the second one.
_SINCE_2019 = {"futex_wake": 454, "futex_wait": 455, "futex_requeue": 456}
_CALLS: dict[str, tuple[int, dict[str, int]]] = {
    "x86_64": (
        0xC000003E,
        {
            "read": 0,
            "write": 1,
            "close": 3,
            "fstat": 5,
            "poll": 7,
            "lseek": 8,
            "mmap": 9,
            "mprotect": 10,
            "munmap": 11,
            "brk": 12,
            "rt_sigaction": 13,
            "rt_sigprocmask": 14,
            "rt_sigreturn": 15,
            "readv": 19,
            "writev": 20,
            "select": 23,
            "sched_yield": 24,
            "mremap": 25,
            "madvise": 28,
            "pause": 34,
            "nanosleep": 35,
            "getpid": 39,
            "exit": 60,
            "gettimeofday": 96,
            "getrusage": 98,
            "times": 100,
            "sigaltstack": 131,
            "gettid": 186,
            "time": 201,
            "futex": 202,
            "sched_getaffinity": 204,
            "restart_syscall": 219,
            "clock_gettime": 228,
            "clock_getres": 229,
            "clock_nanosleep": 230,
            "exit_group": 231,
            "pselect6": 270,
            "ppoll": 271,
            "set_robust_list": 273,
            "getcpu": 309,
            "getrandom": 318,
            "membarrier": 324,
            "rseq": 334,
            **_SINCE_2019,
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            "close": 57,
            "lseek": 62,
            "read": 63,
            "write": 64,
            "readv": 65,
            "writev": 66,
            "pselect6": 72,
            "ppoll": 73,
            "fstat": 80,
            "exit": 93,
            "exit_group": 94,
            "futex": 98,
            "set_robust_list": 99,
            "nanosleep": 101,
            "clock_gettime": 113,
            "clock_getres": 114,
            "clock_nanosleep": 115,
            "sched_getaffinity": 123,
            "sched_yield": 124,
            "restart_syscall": 128,
            "sigaltstack": 132,
            "rt_sigaction": 134,
            "rt_sigprocmask": 135,
            "rt_sigreturn": 139,
            "times": 153,
            "getrusage": 165,
            "getcpu": 168,
            "gettimeofday": 169,
            "getpid": 172,
            "gettid": 178,
            "brk": 214,
            "munmap": 215,
            "mremap": 216,
            "mmap": 222,
            "mprotect": 226,
            "madvise": 233,
            "getrandom": 278,
            "membarrier": 283,
            "rseq": 293,
            **_SINCE_2019,
        },
    ),
}


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def end_with_parent() -> None:
    """The kernel kills this process when the thread that has started it is gone."""
    if sys.platform == "linux":
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def shut_off() -> bool:
    """Gives up all calls but those above. Whether the kernel enforces it."""
    known = _CALLS.get(platform.machine()) if sys.platform == "linux" else None
    if known is None:
        return False
    program = _filter(*known)
    held = ctypes.create_string_buffer(program, len(program))
    loaded = _Program(len(program) // 8, ctypes.cast(held, ctypes.c_void_p))
    # Without new privileges no program could be started with more rights, which the kernel asks for.
    return _prctl(_PR_SET_NO_NEW_PRIVS, 1) and _prctl(
        _PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(loaded)
    )


def _filter(machine: int, calls: dict[str, int]) -> bytes:
    """The program: another machine's calls kill, those above are allowed, everything else fails. Also the
    calls of x32, whose numbers are far above."""
    allowed = sorted(calls.values())
    steps = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 1, 0, machine),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        # A jump over the comparisons that follow and over the refusal.
        *((_EQUAL, len(allowed) - place, 0, call) for place, call in enumerate(allowed)),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _prctl(option: int, value: int, more: int = 0) -> bool:
    call = ctypes.CDLL(None, use_errno=True).prctl
    numbers = (ctypes.c_ulong(each) for each in (value, more, 0, 0))
    return bool(call(option, *numbers) == 0)
