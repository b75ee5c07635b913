"""The system calls that a child has given up: new files, connections, processes, signals.

They are given up by a filter of the kernel (Linux on x86-64 and ARM64), which can't be removed again. On other
systems the limit of open files remains: without a new descriptor there is neither a file nor a connection.
Source: the kernel's Documentation/userspace-api/seccomp_filter.rst, numbers from its syscall tables.
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
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050001  # the last one with EPERM
# Offsets in the kernel's `seccomp_data`.
_NUMBER, _MACHINE = 0, 4
# Numbers from here on are those of the x32 interface, which nothing here uses.
_X32 = 0x40000000

# io_uring can do what the others do, so it belongs to them.
_SINCE_2019 = {
    "io_uring_setup": 425,
    "pidfd_send_signal": 424,
    "pidfd_open": 434,
    "clone3": 435,
    "openat2": 437,
    "pidfd_getfd": 438,
}
_CALLS: dict[str, tuple[int, dict[str, int]]] = {
    "x86_64": (
        0xC000003E,
        {
            "open": 2,
            "socket": 41,
            "connect": 42,
            "accept": 43,
            "sendto": 44,
            "sendmsg": 46,
            "bind": 49,
            "listen": 50,
            "socketpair": 53,
            "clone": 56,
            "fork": 57,
            "vfork": 58,
            "execve": 59,
            "kill": 62,
            "rename": 82,
            "creat": 85,
            "unlink": 87,
            "ptrace": 101,
            "tkill": 200,
            "tgkill": 234,
            "openat": 257,
            "unlinkat": 263,
            "renameat": 264,
            "accept4": 288,
            "prlimit64": 302,
            "process_vm_readv": 310,
            "process_vm_writev": 311,
            "renameat2": 316,
            "memfd_create": 319,
            "bpf": 321,
            "execveat": 322,
            **_SINCE_2019,
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            "unlinkat": 35,
            "renameat": 38,
            "openat": 56,
            "ptrace": 117,
            "kill": 129,
            "tkill": 130,
            "tgkill": 131,
            "socket": 198,
            "socketpair": 199,
            "bind": 200,
            "listen": 201,
            "accept": 202,
            "connect": 203,
            "sendto": 206,
            "sendmsg": 211,
            "clone": 220,
            "execve": 221,
            "accept4": 242,
            "prlimit64": 261,
            "process_vm_readv": 270,
            "process_vm_writev": 271,
            "renameat2": 276,
            "memfd_create": 279,
            "bpf": 280,
            "execveat": 281,
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
    """Gives up the calls above. Whether the kernel enforces it."""
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
    """The program: another machine's calls kill, those above fail, everything else is allowed."""
    refused = sorted(set(calls.values()))
    steps = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 1, 0, machine),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, len(refused) + 1, 0, _X32),
        # A jump over the comparisons that follow and over the permission.
        *((_EQUAL, len(refused) - place, 0, call) for place, call in enumerate(refused)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _prctl(option: int, value: int, more: int = 0) -> bool:
    call = ctypes.CDLL(None, use_errno=True).prctl
    numbers = (ctypes.c_ulong(each) for each in (value, more, 0, 0))
    return bool(call(option, *numbers) == 0)
