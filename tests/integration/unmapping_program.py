"""A program whose threads unmap memory while the recorder finds stacks. Arguments: agent's folder, library, how often."""

import mmap
import sys
import threading

sys.path.insert(0, sys.argv[1])
from headway_agent import recorder

ended = False


def deep(calls):
    """Need more of the memory that CPython maps for a thread's frames."""
    return deep(calls - 1) if calls else sum(range(500))


def serve():
    """Begin and end threads, each of which maps and unmaps memory for its frames."""
    while not ended:
        threads = [threading.Thread(target=deep, args=(50,)) for _ in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()


def buffer():
    """Map and unmap memory of the same size, so that it may lie behind a thread's frames."""
    while not ended:
        buffers = [mmap.mmap(-1, 16384) for _ in range(8)]
        deep(0)
        for one in buffers:
            one.close()


def prepare():
    """Find the stacks anew, as each start of a recording does."""
    for _ in range(20):
        ours.prepared("")
        assert not ours.without_stacks, ours.without_stacks


sys.setswitchinterval(1e-5)
ours = recorder.Recorder(sys.argv[2])
threads = [threading.Thread(target=one) for one in (serve, serve, buffer)]
for thread in threads:
    thread.start()
for _ in range(int(sys.argv[3])):  # each thread has its frames in other memory
    preparing = threading.Thread(target=prepare)
    preparing.start()
    preparing.join()
ended = True
for thread in threads:
    thread.join()
print("found")
