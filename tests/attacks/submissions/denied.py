"""Hostile submissions that reach for something outside: each function lists what it tried and how that ended."""

import ctypes
import io
import mmap
import os
import platform
import resource
import signal
import socket
import subprocess
import threading
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"


def tried(*acts):
    """For each act "denied" or what it gave."""
    return [outcome(act) for act in acts]


def outcome(act):
    try:
        got = act()
    except (OSError, ImportError, ValueError) as error:
        return "denied" if isinstance(error, (PermissionError, ImportError)) else f"denied ({type(error).__name__})"
    return f"succeeded: {got!r}"[:200]


def call(x86, arm, *arguments):
    """A system call by number, or OSError."""
    if LIBC.syscall(x86 if X86 else arm, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")


def reads_the_solutions(folder):
    secret = Path(folder) / "solutions" / "marker.txt"
    return tried(
        secret.read_text,
        lambda: os.listdir(secret.parent),
        lambda: io.FileIO(secret).read(),
        lambda: mmap.mmap(os.open(secret, os.O_RDONLY), 0),
        lambda: ctypes.CDLL(str(secret)),
        lambda: os.readlink(secret.parent),
    )


def reads_what_the_grader_is_made_of(grader):
    return tried(
        *(Path(grader, name).read_text for name in ("results.py", "judge.py", "__init__.py")),
        lambda: os.listdir(grader),
        lambda: __import__("grader.judge"),
        lambda: __import__("grader.mistakes"),
    )


def looks_into_other_processes(_):
    parent = f"/proc/{os.getppid()}"
    return tried(
        *(Path(parent, name).read_bytes for name in ("environ", "maps", "cmdline", "mem")),
        lambda: os.listdir(f"{parent}/fd"),
        lambda: os.listdir("/proc"),
        lambda: os.listdir("/proc/self/fd"),
    )


def reads_the_machine(_):
    paths = ("/etc/passwd", "/etc/hostname", "/var/log/dpkg.log")
    return tried(
        *(Path(path).read_bytes for path in paths),
        (Path.home() / ".bashrc").read_bytes,
        lambda: os.listdir(Path.home()),
        lambda: os.listdir("/"),
    )


def changes_the_results(folder):
    results = Path(folder) / "results.json"
    return tried(
        lambda: results.write_text("{}"),
        lambda: os.truncate(results, 0),
        lambda: os.close(os.open(results, os.O_RDONLY | os.O_TRUNC)),
        lambda: results.rename(results.with_name("other")),
        results.unlink,
        lambda: results.chmod(0),
        lambda: os.utime(results, (0, 0)),
        lambda: os.link(results, results.with_name("link")),
        lambda: os.symlink(results, results.with_name("link")),
        lambda: os.chown(results, 1, 1),
        lambda: os.setxattr(results, "user.x", b"1"),
    )


def writes_files(_):
    places = [Path(os.__file__).parent / "site-packages" / "x.pth", Path("/tmp/x"), Path("/dev/shm/x"), Path("x")]
    return tried(
        *(lambda place=place: place.write_text("x") for place in places),
        lambda: Path("/tmp/folder").mkdir(),
        lambda: os.mkfifo("/tmp/fifo"),
        lambda: os.open("/tmp", os.O_TMPFILE | os.O_RDWR),
        lambda: Path("/dev/null").write_text("x"),
    )


def scans_descriptors(_):
    """Only nothing, output, output and the line to the judge may be open."""
    found = []
    for number in range(4, 1024):
        try:
            os.fstat(number)
        except OSError:
            continue
        found.append(f"succeeded: {number} is open")
    return found or ["denied"]


def connects(_):
    def reach(family, kind, protocol, address):
        with socket.socket(family, kind, protocol) as one:
            one.connect(address)

    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    mptcp = 262
    return tried(
        lambda: reach(socket.AF_INET, socket.SOCK_STREAM, 0, ("127.0.0.1", 1)),
        lambda: reach(socket.AF_INET, socket.SOCK_DGRAM, 0, ("127.0.0.1", 53)),
        lambda: reach(socket.AF_INET, socket.SOCK_STREAM, mptcp, ("127.0.0.1", 1)),
        lambda: reach(socket.AF_UNIX, socket.SOCK_STREAM, 0, "/run/docker.sock"),
        lambda: reach(socket.AF_UNIX, socket.SOCK_DGRAM, 0, "\0abstract"),
        lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0),
        lambda: socket.create_server(("127.0.0.1", 0)),
        lambda: pair[0].sendto(b"x", "/dev/log"),
        lambda: pair[0].sendmsg([b"x"]),
    )


def starts_programs(_):
    return tried(
        lambda: subprocess.run(["/bin/true"], check=False),
        lambda: os.execv("/bin/true", ["true"]),
        lambda: os.posix_spawn("/bin/true", ["true"], {}),
        lambda: call(322, 281, -1, b"/bin/true", 0, 0, 0),
        lambda: os.memfd_create("x"),
        lambda: _status(os.system("true")),
    )


def _status(code):
    if code != 0:
        raise PermissionError(code)


def forks(_):
    def fork():
        child = os.fork()
        if child == 0:
            os.setsid()
            os._exit(0)
        return child

    def double_fork():
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.pause()
            os._exit(0)

    acts = [fork] * 20 + [double_fork]
    sigchld = 17
    return tried(*acts, lambda: call(56, 220, sigchld, 0, 0, 0, 0), *([lambda: call(58, 10_000)] if X86 else []))


def kills_others(_):
    return tried(
        lambda: os.kill(os.getppid(), signal.SIGKILL),
        lambda: os.kill(-1, signal.SIGKILL),
        lambda: os.kill(0, signal.SIGKILL),
        lambda: os.killpg(os.getpgid(os.getppid()), signal.SIGKILL),
        lambda: os.pidfd_open(os.getppid()),
        lambda: os.kill(1, 0),
        lambda: call(129, 138, os.getppid(), 9, 0),
        lambda: call(200, 130, os.getppid(), 9),
        lambda: _owns_a_signal(os.getppid()),
    )


def _owns_a_signal(pid):
    """A descriptor whose readiness signals another process."""
    import fcntl

    fcntl.fcntl(1, fcntl.F_SETOWN, pid)


def traces_others(_):
    buffer = ctypes.create_string_buffer(64)
    return tried(
        lambda: call(101, 117, 16, os.getppid(), 0, 0),
        lambda: call(310, 270, os.getppid(), buffer, 1, buffer, 1, 0),
        lambda: call(311, 271, os.getppid(), buffer, 1, buffer, 1, 0),
        lambda: call(312, 272, os.getppid(), os.getpid(), 0, 0, 0),
    )


def uses_rare_calls(_):
    buffer = ctypes.create_string_buffer(256)
    return tried(
        lambda: call(425, 425, 8, buffer),
        lambda: call(321, 280, 0, buffer, 72),
        lambda: call(250, 219, 0, 0, 0),
        lambda: call(298, 241, buffer, 0, -1, -1, 0),
        lambda: call(323, 282, 0),
        lambda: call(29, 194, 0, 4096, 0o1600),
        lambda: call(240 if X86 else 180, 180, b"q", 0o100, 0o600, 0),
        lambda: call(248, 217, b"user", b"x", b"y", 1, -4),
    )


def leaves_the_jail(folder):
    new_user = 0x10000000
    return tried(
        lambda: call(272, 97, new_user),
        lambda: call(308, 268, 3, 0),
        lambda: call(165, 40, b"none", folder.encode(), b"tmpfs", 0, 0),
        lambda: os.chroot(folder),
        lambda: os.chdir(folder),
        lambda: call(155, 41, b".", b"."),
    )


def raises_its_limits(_):
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    return tried(
        lambda: resource.setrlimit(resource.RLIMIT_AS, unlimited),
        lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (10_000, 10_000)),
        lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1)),
        lambda: os.setuid(0),
        lambda: os.setgroups([0]),
        lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 19),
        lambda: os.sched_setaffinity(os.getppid(), {0}),
        lambda: LIBC.prctl(1, 0, 0, 0, 0) and _status(1),
        lambda: call(317, 277, 1, 0, 0),
    )


def passes_descriptors(_):
    with socket.socket(fileno=os.dup(3)) as line:
        return tried(lambda: socket.send_fds(line, [b"x"], [0]), lambda: socket.recv_fds(line, 1, 1))


def does_it_in_a_thread(folder):
    answers = []
    thread = threading.Thread(target=lambda: answers.extend(reads_the_solutions(folder) + forks(folder)))
    thread.start()
    thread.join()
    return answers
