"""Find processes, folders and semaphores of a test's labs on this machine, so that tests can check that none is left."""

import contextlib
import os
import re
from pathlib import Path

from headway.lab.beside.volumes import find_volumes


def marked():
    """Return {pid: command line} of every live process of this test's labs; their environment names the test's store."""
    mark = b"HEADWAY_STORE=" + os.environb[b"HEADWAY_STORE"] + b"\0"
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            with contextlib.suppress(OSError):
                if mark in Path(f"/proc/{entry}/environ").read_bytes():
                    found[int(entry)] = Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def processes_with(words):
    """Return the ids of the processes of this test's labs whose command line contains `words`."""
    return [pid for pid, command in marked().items() if words in command]


def lab_folders(labs):
    """Return the folders of these labs, by process id, on every volume.

    Other tests run labs at the same time, some of them in their own process, so the owner in a folder's name decides.
    """
    volumes = find_volumes().found.values()
    return {path for volume in volumes for lab in labs for path in volume.folder.glob(f"headway-lab-*-*-{lab}-*")}


def semaphores(seen):
    """Return the semaphores of multiprocessing that exist and that a process of this test's labs has been seen to have.

    `seen` is the set of all that were seen, by inode; each call adds to it. A semaphore's name does not tell its owner,
    and any other program may have semaphores. A process that made a semaphore has mapped it under another name.
    """
    for pid in marked():
        with contextlib.suppress(OSError):
            mapped = Path(f"/proc/{pid}/maps").read_text()
            seen.update(map(int, re.findall(r" (\d+) +/dev/shm/sem\.", mapped)))
    found = set()
    for path in Path("/dev/shm").glob("sem.mp-*"):
        with contextlib.suppress(OSError):
            if path.stat().st_ino in seen:
                found.add(path)
    return found
