"""Locks a worker down, before it is given anything of a submission: the layers of the isolation on Linux.

`prepare` does the slow part once, in the zygote; `apply` runs in each worker, irreversibly, in about a millisecond,
and answers which layers hold. A layer counts as enforced only if the forbidden act was tried and failed. Where a
layer is not to be had (another system, an old kernel), the worker goes on without it and says so; whether that is
good enough is for the judge to decide.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import platform
import site
import socket
import struct
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

LIMITS, PRIVILEGES, FILES, CALLS, DESCRIPTORS = "limits", "privileges", "filesystem", "system_calls", "descriptors"
LAYERS = (LIMITS, PRIVILEGES, FILES, DESCRIPTORS, CALLS)  # in the order in which they are applied


class Bounds(msgspec.Struct, frozen=True):
    """The limits that a worker puts on itself. `memory_bytes` counts from what torch has taken already."""

    memory_bytes: int
    cpu_seconds: int
    open_files: int
    file_bytes: int = 0


class Layer(msgspec.Struct, frozen=True):
    """Whether a layer holds; `detail` is the reason in short where it does not, such as "ENOSYS"."""

    name: str
    enforced: bool
    detail: str = ""


class Plan(msgspec.Struct):
    """What `prepare` made: the Landlock rules, the system call filter, files that must not be readable."""

    bounds: Bounds
    without: list[str]
    hidden: list[str]
    ruleset: int | None = None
    ruleset_missing: str = ""
    program: bytes | None = None
    pid_offsets: list[int] = []


class Unavailable(Exception):
    """A layer that this system does not have."""


def prepare(bounds: Bounds, hidden: list[str], without: list[str]) -> Plan:
    """Plans the layers. `hidden` is never readable, wherever it lies; `without` names layers to leave out, in tests."""
    plan = Plan(bounds, without, hidden)
    try:
        plan.ruleset = _ruleset([Path(path) for path in hidden])
    except (OSError, Unavailable) as error:
        plan.ruleset_missing = _reason(error)
    table = NUMBERS.get(platform.machine()) if sys.platform == "linux" else None
    if table is not None:
        plan.program, plan.pid_offsets = _program(*table)
    return plan


def apply(plan: Plan, parent: int | None = None) -> list[Layer]:
    """Applies every layer to this process, which has one thread, and tries what they forbid.

    With `parent`, this process ends with that one: asked for again here, because a change of privileges clears it.
    """
    steps: dict[str, Callable[[Plan], None]] = {
        LIMITS: _limit,
        PRIVILEGES: _drop_privileges,
        FILES: _restrict_files,
        DESCRIPTORS: _close_descriptors,
        CALLS: _filter_calls,
    }
    layers = {}
    for name in LAYERS:
        try:
            if name in plan.without:
                raise Unavailable("left out")
            steps[name](plan)
            layers[name] = Layer(name, True)
        except (OSError, Unavailable, AttributeError, ImportError, ValueError) as error:
            layers[name] = Layer(name, False, _reason(error))
        if name == PRIVILEGES and parent is not None:
            die_with_parent(parent)
    for name, allowed in _tried(plan):
        if layers[name].enforced:
            layers[name] = Layer(name, False, f"does not hold: {allowed}")
    return list(layers.values())


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno is not None:
        return errno.errorcode.get(error.errno, str(error.errno))
    return str(error) or type(error).__name__


# ---------------------------------------------------------------------------------------------- limits


def _limit(plan: Plan) -> None:
    if resource is None:
        raise Unavailable(f"not on {sys.platform}")
    bounds = plan.bounds
    limits = {
        "RLIMIT_CPU": bounds.cpu_seconds,
        "RLIMIT_FSIZE": bounds.file_bytes,
        "RLIMIT_NOFILE": bounds.open_files,
        "RLIMIT_CORE": 0,
        "RLIMIT_MEMLOCK": 0,
        "RLIMIT_MSGQUEUE": 0,
        "RLIMIT_SIGPENDING": 64,
    }
    if sys.platform == "linux":
        limits["RLIMIT_AS"] = _virtual_size() + bounds.memory_bytes
    for name, value in limits.items():
        kind = getattr(resource, name, None)
        if kind is None:
            continue
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value + 1 if name == "RLIMIT_CPU" and value < hard else value))


def _virtual_size() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


# ------------------------------------------------------------------------------------------ privileges

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_CAPABILITY_VERSION_3 = 0x20080522


def prctl(option: int, *arguments: int) -> None:
    """prctl(2), or OSError."""
    padded = [ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:4]]
    if _libc().prctl(option, *padded) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def die_with_parent(parent: int) -> None:
    """This process is killed when its parent, of the process id given, ends."""
    import signal

    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def hide_memory() -> None:
    """Other processes of the same user can neither trace this one nor read its memory."""
    prctl(_PR_SET_DUMPABLE, 0)


def _drop_privileges(plan: Plan) -> None:
    _need_linux()
    for capability in range(64):
        try:
            prctl(_PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno == errno.EINVAL:
                break  # one more than the kernel has
            if error.errno != errno.EPERM:
                raise
    try:
        prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    header, none = struct.pack("Ii", _CAPABILITY_VERSION_3, 0), bytes(24)
    if _libc().capset(header, none) != 0:
        raise OSError(ctypes.get_errno(), "capset")
    hide_memory()
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def _need_linux() -> None:
    if sys.platform != "linux":
        raise Unavailable(f"not on {sys.platform}")


@functools.lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _syscall(number: int, *arguments: int | bytes | None) -> int:
    values = [ctypes.c_long(item) if isinstance(item, int) else item for item in arguments]
    result: int = _libc().syscall(ctypes.c_long(number), *values)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"system call {number}")
    return result


# -------------------------------------------------------------------------------------------- Landlock

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}  # by ABI, from that one on
_NETWORK_FROM, _SCOPE_FROM = 4, 6
_OUT_OF_REACH = 100  # descriptors of ours stay clear of 0 to 3, which dup2 overwrites
_OPEN_AT_MOST = 4096  # a zygote opens a handful


def _ruleset(hidden: list[Path]) -> int:
    """A Landlock ruleset that allows to read Python, torch and the system's libraries, and nothing else."""
    _need_linux()
    version = _syscall(_CREATE_RULESET, None, 0, 1)
    rights = max(value for abi, value in _FILE_RIGHTS.items() if abi <= version)
    network = 3 if version >= _NETWORK_FROM else 0
    scope = 3 if version >= _SCOPE_FROM else 0
    attributes = struct.pack("QQQ", rights, network, scope)
    size = 24 if version >= _SCOPE_FROM else 16 if version >= _NETWORK_FROM else 8
    made = _syscall(_CREATE_RULESET, attributes, size, 0)
    ruleset = _moved_up(made)
    for path in _readable(hidden):
        _allow(ruleset, path)
    return ruleset


def _moved_up(descriptor: int) -> int:
    import fcntl

    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_REACH)
    os.close(descriptor)
    return moved


def _allow(ruleset: int, path: Path) -> None:
    try:
        below = os.open(path, os.O_PATH | os.O_CLOEXEC)  # type: ignore[attr-defined,unused-ignore]
    except OSError:
        return
    try:
        access = _READ_FILE | _READ_DIR if path.is_dir() else _READ_FILE
        _syscall(_ADD_RULE, ruleset, 1, struct.pack("=Qi", access, below), 0)
    finally:
        os.close(below)


def _readable(hidden: list[Path]) -> Iterator[Path]:
    """What a worker may read, as whole folders where nothing hidden is inside, otherwise entry by entry."""
    ours = Path(__file__).resolve().parent
    yield ours
    yield ours.parent / "wire.py"
    yield Path(sys.prefix) / "pyvenv.cfg"
    secret = [path.resolve() for path in (*hidden, *_of_the_grader(ours.parent))]
    for root in _roots():
        yield from _around(root, secret)


def _of_the_grader(package: Path) -> Iterator[Path]:
    """The grader and the folders that may stand inside or beside it."""
    yield package
    yield from (package.parent / name for name in ("exercises", "solutions", "reports", "tests"))


def _roots() -> Iterator[Path]:
    libraries = {Path(sys.base_prefix) / name for name in ("lib", "lib64", "Lib", "DLLs")}
    libraries |= {Path(path) for path in (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")) if path}
    libraries |= {Path(path) for path in site.getsitepackages()}
    libraries |= {Path(path) for path in sys.path if Path(path).name in ("site-packages", "dist-packages")}
    libraries |= {Path(name) for name in ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/nix/store")}
    libraries |= {Path(name) for name in ("/etc/ld.so.cache", "/dev/null", "/dev/urandom", "/proc/cpuinfo")}
    libraries |= {Path("/sys/devices/system/cpu"), Path("/usr/share/zoneinfo")}
    yield from sorted({path.resolve() for path in libraries if path.exists()})


def _around(path: Path, secret: list[Path]) -> Iterator[Path]:
    real = path.resolve()
    if any(real == one or one in real.parents for one in secret):
        return
    if any(real in one.parents for one in secret):
        for entry in _entries(real):
            yield from _around(entry, secret)
    else:
        yield real


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _restrict_files(plan: Plan) -> None:
    if plan.ruleset is None:
        raise Unavailable(plan.ruleset_missing)
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _syscall(_RESTRICT_SELF, plan.ruleset, 0)


# ----------------------------------------------------------------------------------------- descriptors


def _close_descriptors(plan: Plan) -> None:
    """Closes all but 0 to 3: nothing, output, output, and the line to the judge."""
    os.closerange(4, _OPEN_AT_MOST)


# ---------------------------------------------------------------------------------------- system calls

# name: (number on x86_64, number on aarch64); None where the architecture has no such call
ALLOWED: dict[str, tuple[int | None, int | None]] = {
    # files, read only
    **{"read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66), "pread64": (17, 67)},
    **{"pwrite64": (18, 68), "preadv": (295, 69), "preadv2": (327, 286), "lseek": (8, 62), "close": (3, 57)},
    **{"close_range": (436, 436), "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24), "pipe": (22, None)},
    **{"pipe2": (293, 59), "fstat": (5, 80), "stat": (4, None), "lstat": (6, None), "newfstatat": (262, 79)},
    **{"statx": (332, 291), "statfs": (137, 43), "fstatfs": (138, 44), "access": (21, None), "faccessat": (269, 48)},
    **{"faccessat2": (439, 439), "readlink": (89, None), "readlinkat": (267, 78), "getdents64": (217, 61)},
    "getcwd": (79, 17),
    # memory
    **{"mmap": (9, 222), "munmap": (11, 215), "mremap": (25, 216), "mprotect": (10, 226), "madvise": (28, 233)},
    **{"brk": (12, 214), "mincore": (27, 232), "msync": (26, 227), "membarrier": (324, 283)},
    # threads
    **{"rseq": (334, 293), "futex": (202, 98), "futex_waitv": (449, 449), "set_robust_list": (273, 99)},
    **{"set_tid_address": (218, 96), "sched_yield": (24, 124), "sched_getaffinity": (204, 123)},
    **{"sched_getparam": (143, 121), "sched_getscheduler": (145, 120), "sched_get_priority_max": (146, 125)},
    **{"sched_get_priority_min": (147, 126), "getcpu": (309, 168)},
    # time
    **{"clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115), "nanosleep": (35, 101)},
    **{"gettimeofday": (96, 169), "time": (201, None), "times": (100, 153), "timer_create": (222, 107)},
    **{"timer_settime": (223, 110), "timer_gettime": (224, 108), "timer_delete": (226, 111)},
    **{"timer_getoverrun": (225, 109), "timerfd_create": (283, 85), "timerfd_settime": (286, 86)},
    **{"timerfd_gettime": (287, 87), "alarm": (37, None), "getitimer": (36, 102), "setitimer": (38, 103)},
    "pause": (34, None),
    # signals of its own
    **{"rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "rt_sigpending": (127, 136)},
    **{"rt_sigsuspend": (130, 133), "rt_sigtimedwait": (128, 137), "sigaltstack": (131, 132)},
    "restart_syscall": (219, 128),
    # waiting
    **{"poll": (7, None), "ppoll": (271, 73), "select": (23, None), "pselect6": (270, 72), "epoll_create": (213, None)},
    **{"epoll_create1": (291, 20), "epoll_ctl": (233, 21), "epoll_wait": (232, None), "epoll_pwait": (281, 22)},
    **{"epoll_pwait2": (441, 441), "eventfd": (284, None), "eventfd2": (290, 19), "socketpair": (53, 199)},
    **{"recvfrom": (45, 207), "shutdown": (48, 210), "getsockopt": (55, 209), "getsockname": (51, 204)},
    "getpeername": (52, 205),
    # what it may know about itself
    **{"getpid": (39, 172), "getppid": (110, 173), "gettid": (186, 178), "getuid": (102, 174), "geteuid": (107, 175)},
    **{"getgid": (104, 176), "getegid": (108, 177), "getresuid": (118, 148), "getresgid": (120, 150)},
    **{"getgroups": (115, 158), "getpgrp": (111, None), "getpgid": (121, 155), "getsid": (124, 156)},
    **{"getpriority": (140, 141), "capget": (125, 90), "umask": (95, 166), "getrusage": (98, 165)},
    **{"getrlimit": (97, 163), "sysinfo": (99, 179), "uname": (63, 160), "getrandom": (318, 278)},
    **{"exit": (60, 93), "exit_group": (231, 94)},
}
# calls that depend on their arguments
RULED: dict[str, tuple[int | None, int | None]] = {
    **{"open": (2, None), "openat": (257, 56), "sendto": (44, 206), "clone": (56, 220), "clone3": (435, 435)},
    **{"kill": (62, 129), "tgkill": (234, 131), "prlimit64": (302, 261), "ioctl": (16, 29), "fcntl": (72, 25)},
    **{"prctl": (157, 167), "wait4": (61, 260)},
}
_NEWEST_KNOWN = 461  # above it, ENOSYS, so that libraries fall back to an older call
_X86_64, _AARCH64 = 0xC000003E, 0xC00000B7
_X32_BIT = 0x40000000


def _numbers(column: int) -> tuple[dict[str, int], dict[str, int]]:
    allowed = {name: row[column] for name, row in ALLOWED.items()}
    ruled = {name: row[column] for name, row in RULED.items()}
    return (
        {name: number for name, number in allowed.items() if number is not None},
        {name: number for name, number in ruled.items() if number is not None},
    )


NUMBERS = {"x86_64": (_X86_64, *_numbers(0)), "aarch64": (_AARCH64, *_numbers(1))}

_LOAD, _JEQ, _JGE, _JSET, _AND, _RET = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_OPEN_FOR_WRITING = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC | 0o20000000 if hasattr(os, "O_ACCMODE") else 0  # O_TMPFILE
_CLONE_VM, _CLONE_THREAD, _CLONE_NEW_ANYTHING = 0x100, 0x10000, 0x7E020080
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS TIOCGWINSZ FIONREAD FIONBIO FIONCLEX FIOCLEX
_FCNTLS = (0, 1, 2, 3, 4, 1030)  # DUPFD GETFD SETFD GETFL SETFL DUPFD_CLOEXEC
_PRCTLS = (3, 15, 16, 0x53564D41)  # GET_DUMPABLE SET_NAME GET_NAME SET_VMA

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand


def _errno(number: int) -> Instruction:
    return (_RET, 0, 0, 0x00050000 | number)


def _argument(index: int, high: bool = False) -> Instruction:
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * index + 4 * high)


def _one_of(argument: int, values: tuple[int, ...]) -> list[Instruction]:
    """Allow where an argument is one of these, else EPERM."""
    tests = [(_JEQ, len(values) - index, 0, value) for index, value in enumerate(values)]
    return [_argument(argument), *tests, _errno(errno.EPERM), (_RET, 0, 0, _ALLOW)]


_OWN_PID = -1  # patched in each worker

_RULES: dict[str, list[Instruction]] = {
    "open": [_argument(1), (_JSET, 0, 1, _OPEN_FOR_WRITING), _errno(errno.EPERM), (_RET, 0, 0, _ALLOW)],
    "openat": [_argument(2), (_JSET, 0, 1, _OPEN_FOR_WRITING), _errno(errno.EPERM), (_RET, 0, 0, _ALLOW)],
    # only to the other end of a pair: a datagram could otherwise name any socket of the machine
    "sendto": [
        *(_argument(4), (_JEQ, 0, 2, 0), _argument(4, high=True), (_JEQ, 1, 0, 0)),
        *(_errno(errno.EPERM), (_RET, 0, 0, _ALLOW)),
    ],
    "clone": [
        *(_argument(0), (_JSET, 3, 0, _CLONE_NEW_ANYTHING), (_JSET, 0, 2, _CLONE_THREAD), (_JSET, 0, 1, _CLONE_VM)),
        *((_RET, 0, 0, _ALLOW), _errno(errno.EPERM)),
    ],
    "clone3": [_errno(errno.ENOSYS)],
    "kill": _one_of(0, (_OWN_PID,)),
    "tgkill": _one_of(0, (_OWN_PID,)),
    "prlimit64": _one_of(0, (0, _OWN_PID)),
    "ioctl": _one_of(1, _IOCTLS),
    "fcntl": _one_of(1, _FCNTLS),
    "prctl": _one_of(0, _PRCTLS),
    "wait4": [_errno(errno.ECHILD)],
}


def _program(arch: int, allowed: dict[str, int], ruled: dict[str, int]) -> tuple[bytes, list[int]]:
    """The filter, and where in it the worker's process id goes. Whatever is not named is refused."""
    code: list[Instruction] = [(_LOAD, 0, 0, _ARCH), (_JEQ, 1, 0, arch), (_RET, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER)]
    if arch == _X86_64:
        code += [(_JGE, 0, 1, _X32_BIT), (_RET, 0, 0, _KILL)]
    for number in sorted(allowed.values()):
        code += [(_JEQ, 0, 1, number), (_RET, 0, 0, _ALLOW)]
    for name, number in ruled.items():
        code += [(_JEQ, 0, len(_RULES[name]), number), *_RULES[name]]
    code += [(_JGE, 0, 1, _NEWEST_KNOWN), _errno(errno.ENOSYS), _errno(errno.EPERM)]
    packed = b"".join(struct.pack("=HBBI", *row[:3], row[3] if row[3] != _OWN_PID else 0) for row in code)
    return packed, [8 * index + 4 for index, row in enumerate(code) if row[3] == _OWN_PID]


def _filter_calls(plan: Plan) -> None:
    if plan.program is None:
        raise Unavailable(f"no table for {sys.platform} {platform.machine()}")
    program = bytearray(plan.program)
    for offset in plan.pid_offsets:
        struct.pack_into("=I", program, offset, os.getpid())
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    buffer = ctypes.create_string_buffer(bytes(program), len(program))
    filter_ = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    seccomp = {"x86_64": 317, "aarch64": 277}[platform.machine()]
    _syscall(seccomp, 1, 1, filter_)  # SET_MODE_FILTER on every thread


# --------------------------------------------------------------------------------------- the layers tried


def _tried(plan: Plan) -> Iterator[tuple[str, str]]:
    """The forbidden acts that succeeded: (layer, act)."""
    if sys.platform != "linux":
        return
    for path in ("/etc/passwd", str(Path(__file__).resolve().parents[1] / "results.py"), *plan.hidden[:4]):
        if _succeeds(functools.partial(_read, path)):
            yield FILES, f"reads {path}"
    acts: dict[str, Callable[[], object]] = {
        "opens a socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close(),
        "opens a file for writing": lambda: os.close(os.open("/dev/null", os.O_WRONLY)),
        "signals another process": lambda: os.kill(os.getppid(), 0),
        "starts a process": _fork_once,
    }
    for act, do in acts.items():
        if _succeeds(do):
            yield CALLS, act


def _read(path: str) -> None:
    os.close(os.open(path, os.O_RDONLY))


def _succeeds(act: Callable[[], object]) -> bool:
    try:
        act()
    except OSError:
        return False
    return True


def _fork_once() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
