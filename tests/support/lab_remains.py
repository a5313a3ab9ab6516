"""What the labs of a test have on this machine: processes, folders, semaphores. For tests that nothing of it is left."""

import contextlib
import os
import re
from pathlib import Path

from headway.lab.beside.volumes import find_volumes


def marked():
    """Return {pid: command line} of every live process of this test's labs, by the store that their environment names."""
    mark = b"HEADWAY_STORE=" + os.environb[b"HEADWAY_STORE"] + b"\0"
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            with contextlib.suppress(OSError):
                if mark in Path(f"/proc/{entry}/environ").read_bytes():
                    found[int(entry)] = Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def processes_with(words):
    """Return the ids of this test's labs' processes whose command line has these words in it."""
    return [pid for pid, command in marked().items() if words in command]


def lab_folders(labs):
    """Return the folders of these labs, by process id, on every volume.

    Other tests run labs at the same time, some within their own process, so the owner in a folder's name decides.
    """
    volumes = find_volumes().found.values()
    return {path for volume in volumes for lab in labs for path in volume.folder.glob(f"headway-lab-*-*-{lab}-*")}


def semaphores(seen):
    """Return multiprocessing's semaphores that are there, of those that a process of this test's labs was seen to have.

    `seen` is the set of those, by inode, which grows with each call. Their names do not tell whose they are, and any other
    program may have some. A process that made one has mapped it by another name.
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
