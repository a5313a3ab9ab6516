"""A disk with slow writes: ext4 on a loop device, whose image is on a FUSE file system of this module.

It needs root, /dev/fuse and a free loop device, but no kernel with dm-delay. Reads are fast. The loop device writes one
piece after the other, of 1 MiB at most.

As a program (`slow_disk.py DESCRIPTOR IMAGE BYTES`) the module is the FUSE server. The server has one file. It answers
each write after the delay that it last read from its standard input, and ends at the end of its standard input.
"""

import contextlib
import ctypes
import errno
import os
import shutil
import stat
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["Impossible", "command", "slow_disk"]

NAME = b"disk.img"
MOST_WRITE = 1 << 20
FRESH_S = 3600
_MS_NOSUID_NODEV = 2 | 4
_IN, _OUT = struct.Struct("<IIQQIIIHH"), struct.Struct("<IiQ")
# From linux/fuse.h: the requests that the server knows. INTERRUPT and the two FORGET requests have no answer.
LOOKUP, FORGET, GETATTR, SETATTR, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC = 1, 2, 3, 4, 14, 15, 16, 17, 18, 20
FLUSH, INIT, OPENDIR, RELEASEDIR, ACCESS, INTERRUPT, DESTROY, BATCH_FORGET = 25, 26, 27, 29, 34, 36, 38, 42
_BIG_WRITES, _MAX_PAGES = 1 << 5, 1 << 22
ROOT, FILE = 1, 2


class Impossible(Exception):  # noqa: N818  (a fact about the machine, and no error of the program)
    """The reason why this machine cannot do something, in a sentence."""


def command(*words: str) -> str:
    """Run a program of the system; return its output. Raises Impossible."""
    program = shutil.which(words[0], path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program is None:
        raise Impossible(f"there is no {words[0]}")
    done = subprocess.run([program, *words[1:]], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Impossible(f"{' '.join(words[:2])} failed: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    return done.stdout


# ---- the server ----


class Server:
    """Answers the kernel's requests for one file of `size` bytes."""

    def __init__(self, kernel: int, image: int, size: int) -> None:
        self.kernel, self.image, self.size = kernel, image, size
        self.delay_s = 0.0

    def attributes(self, node: int) -> bytes:
        """Return a struct fuse_attr."""
        is_root = node == ROOT
        mode = (stat.S_IFDIR | 0o700) if is_root else (stat.S_IFREG | 0o600)
        size = 4096 if is_root else self.size
        return struct.pack("<6Q10I", node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def answer(self, unique: int, body: bytes = b"", error: int = 0) -> None:
        """Answer a request; ENOENT means that the request was interrupted and no longer exists."""
        with contextlib.suppress(FileNotFoundError):
            os.write(self.kernel, _OUT.pack(_OUT.size + len(body), -error, unique) + body)

    def serve(self) -> None:
        """Answer requests until the file system is unmounted."""
        while True:
            try:
                request = os.read(self.kernel, MOST_WRITE + 8192)
            except InterruptedError:
                continue
            except OSError:  # ENODEV: unmounted
                return
            _, opcode, unique, node, *_ = _IN.unpack_from(request)
            body = request[_IN.size :]
            if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            if opcode == WRITE:
                _, offset, size = struct.unpack_from("<QQI", body)
                os.pwrite(self.image, body[40 : 40 + size], offset)
                written = struct.pack("<II", size, 0)
                if self.delay_s:
                    threading.Timer(self.delay_s, self.answer, (unique, written)).start()
                else:
                    self.answer(unique, written)
            elif opcode == READ:
                _, offset, size = struct.unpack_from("<QQI", body)
                self.answer(unique, os.pread(self.image, size, offset))
            else:
                self.other(opcode, unique, node, body)

    def other(self, opcode: int, unique: int, node: int, body: bytes) -> None:
        """Answer a request that is not about the file's contents."""
        if opcode == INIT:
            _, _, readahead, flags = struct.unpack_from("<IIII", body)
            flags &= _BIG_WRITES | _MAX_PAGES
            pages = MOST_WRITE // 4096
            self.answer(unique, struct.pack("<IIIIHHIIHH32x", 7, 31, readahead, flags, 64, 48, MOST_WRITE, 1, pages, 0))
        elif opcode == LOOKUP and body.rstrip(b"\0") == NAME:
            found = struct.pack("<QQQQII", FILE, 0, FRESH_S, FRESH_S, 0, 0)
            self.answer(unique, found + self.attributes(FILE))
        elif opcode == LOOKUP:
            self.answer(unique, error=errno.ENOENT)
        elif opcode in (GETATTR, SETATTR):
            self.answer(unique, struct.pack("<QII", FRESH_S, 0, 0) + self.attributes(node))
        elif opcode in (OPEN, OPENDIR):
            self.answer(unique, struct.pack("<QIi", 0, 0, 0))
        elif opcode == STATFS:
            self.answer(unique, struct.pack("<5Q4I24x", self.size // 4096, 0, 0, 2, 0, 4096, 255, 4096, 0))
        elif opcode in (RELEASE, RELEASEDIR, FSYNC, FLUSH, ACCESS, DESTROY):
            self.answer(unique)
        else:
            self.answer(unique, error=errno.ENOSYS)


def main() -> None:
    """Serve the file system, and read delays from the standard input."""
    kernel, image, size = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    server = Server(kernel, os.open(image, os.O_RDWR), size)

    def listen() -> None:
        for line in sys.stdin:
            server.delay_s = float(line)
            print("told", flush=True)
        os._exit(0)  # the user of the disk has ended; the file system ends with this process

    threading.Thread(target=listen, daemon=True).start()
    server.serve()


# ---- the interface for users of the disk ----


class Disk:
    """A mounted slow disk; `path` is its folder."""

    def __init__(self, path: Path, server: "subprocess.Popen[str]") -> None:
        self.path = path
        self._server = server

    def delay(self, seconds: float) -> None:
        """Set the delay of each write from now on."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(f"{seconds}\n")
        self._server.stdin.flush()
        self._server.stdout.readline()


def _mount_fuse(where: Path) -> int:
    """Mount a FUSE file system; return the descriptor that its server reads. Raises Impossible."""
    try:
        kernel = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        raise Impossible(f"/dev/fuse cannot be opened: {error.strerror}") from error
    libc: Any = ctypes.CDLL(None, use_errno=True)
    options = f"fd={kernel},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.mount(b"headway", os.fsencode(where), b"fuse", ctypes.c_ulong(_MS_NOSUID_NODEV), options) != 0:
        os.close(kernel)
        raise Impossible(f"FUSE cannot be mounted: {os.strerror(ctypes.get_errno())}")
    return kernel


@contextlib.contextmanager
def slow_disk(folder: Path, size: int) -> Iterator[Disk]:
    """Yield a disk of `size` bytes that is fast until a delay is set; nothing of it is left afterwards.

    Raises:
        Impossible: This machine cannot have one.
    """
    image, fuse, path = folder / "image", folder / "fuse", folder / "slow"
    fuse.mkdir()
    path.mkdir()
    with image.open("wb") as file:
        file.truncate(size)
    with contextlib.ExitStack() as stack:
        kernel = _mount_fuse(fuse)
        server = subprocess.Popen(
            [sys.executable, __file__, str(kernel), str(image), str(size)], pass_fds=[kernel], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        os.close(kernel)
        disk = Disk(path, server)
        stack.callback(server.communicate)
        stack.callback(_quietly, "umount", "--lazy", str(fuse))
        loop = command("losetup", "--find", "--show", str(fuse / NAME.decode())).strip()
        stack.callback(_quietly, "losetup", "--detach", loop)
        command("mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0", loop)
        command("mount", loop, str(path))
        stack.callback(_unmount, path)
        stack.callback(disk.delay, 0.0)  # so that pending writes at the end are fast
        yield disk


def _unmount(path: Path) -> None:
    try:
        command("umount", str(path))
    except Impossible:  # some process has a file open
        _quietly("umount", "--lazy", str(path))


def _quietly(*words: str) -> None:
    with contextlib.suppress(Impossible):
        command(*words)


if __name__ == "__main__":
    main()
