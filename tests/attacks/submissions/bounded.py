"""Hostile submissions that want more than there is."""

import mmap
import os
import threading
import time

import torch


def allocates_bytes(_):
    return len([bytearray(1 << 24) for _ in range(1000)])


def asks_for_too_much_at_once(_):
    return torch.ones(10**10).sum()


def touches_tensors(_):
    kept = []
    while True:
        kept.append(torch.ones(1 << 22))


def shares_memory(_):
    kept = []
    for _ in range(1000):
        kept.append(mmap.mmap(-1, 1 << 24))
        kept[-1].write(b"x" * (1 << 24))
    return len(kept)


def starts_threads(_):
    threading.stack_size(1 << 16)
    for _ in range(5000):
        threading.Thread(target=time.sleep, args=[1000], daemon=True).start()
    time.sleep(1000)


def opens_descriptors(_):
    kept = []
    try:
        while True:
            kept.append(os.pipe())
    except OSError as error:
        return [len(kept), type(error).__name__]


def prints_a_lot(_):
    print("z" * 3_000_000)
    return 1


def answers_much(_):
    return torch.zeros(1 << 26)  # 256 MiB


def answers_much_in_parts(_):
    return [torch.zeros(1 << 20) for _ in range(40)]  # 160 MiB


def answers_many(_):
    return [0] * 10_000_000


def raises_a_long_text(_):
    raise ValueError("<script>alert(1)</script>\x1b[31m\u202e" + "a" * 10_000_000)
