"""Hostile submissions that end their process, or never end."""

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time

import torch


def exits(_):
    os._exit(0)


def exits_later(_):
    threading.Timer(0.05, os._exit, [7]).start()
    return 1


def raises_system_exit(_):
    sys.exit(0)


def exits_in_a_destructor(_):
    class Gone:
        def __del__(self):
            raise SystemExit(0)

    Gone()
    return 1


def segfaults(_):
    ctypes.string_at(0)


def aborts(_):
    os.abort()


def kills_itself(_):
    os.kill(os.getpid(), signal.SIGKILL)


def loops(_):
    while True:
        pass


def loops_and_ignores_everything(_):
    for number in range(1, 65):
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN)
    while True:
        try:
            while True:
                pass
        except BaseException:
            continue


def loops_in_cpp(_):
    size = torch.ones(600, 600)
    while True:
        size @ size


def sleeps(_):
    time.sleep(1000)


def stops_itself(_):
    os.kill(os.getpid(), signal.SIGSTOP)


def recurses(n):
    return recurses(n)


def hangs_up(_):
    os.close(3)
    time.sleep(1000)


def floods(_):
    while True:
        print("x" * 10_000)


def floods_stderr_by_descriptor(_):
    while True:
        os.write(2, b"y" * 65_536)
