"""Read damaged trace files: `python tools/fuzz_traces.py [--seconds 600] [--seed N] [--keep FOLDER] [FILE...]`.

The program mutates trace files and reads the results. Mutations are flipped bits, cuts, spliced pieces, and boundary
values in the fields of headers, events and records. For any bytes, the reader must refuse the file with a TraceError,
or return a trace that keeps the invariants, within MOST_S of CPU time and MOST_BYTES of memory. An input that breaks
this rule is saved, and the exit status is 1.

Without FILE the program starts from files that headway.traces.writer writes.
"""

import argparse
import importlib
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "support")]

from headway.errors import TraceError  # noqa: E402 - needs the path above
from headway.traces import format as hwt  # noqa: E402
from headway.traces.invariants import violations  # noqa: E402
from headway.traces.reader import read, read_part  # noqa: E402
from headway.traces.writer import write  # noqa: E402

MOST_S = 2.0
MOST_BYTES = 500 * 2**20
MOST_FILE_BYTES = 4 * 2**20
"""Larger files are left out: what is slow with them need not be wrong."""

NUMBERS = [0, 1, 2, 3, 7, 8, 15, 16, 23, 24, 63, 64, 255, 256, 4095, 4096, 16319, 16320, 16384, 65535, 2**16]
NUMBERS += [2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
RECORDS = {
    hwt.META_GIL: hwt.META_GIL_DTYPE,
    hwt.META_GIL_END: hwt.META_GIL_DTYPE,
    hwt.META_CODE: hwt.META_CODE_DTYPE,
    hwt.META_NODE: hwt.META_NODE_DTYPE,
    hwt.META_NAME: hwt.META_NAME_DTYPE,
    hwt.META_TYPE: hwt.META_TYPE_DTYPE,
}


def places(data: bytes) -> list[list[tuple[int, int]]]:
    """Return (offset, bytes) of the fields of a valid file, by group: header, chunk headers, events, records."""
    header = np.frombuffer(data, hwt.HEADER_DTYPE, 1)[0]
    groups: list[list[tuple[int, int]]] = [fields(hwt.HEADER_DTYPE, 0), [], [], []]
    first = int(header["chunks_offset"])
    for at in chunks_at(data, first):
        chunk = np.frombuffer(data, hwt.CHUNK_DTYPE, 1, at)[0]
        groups[1] += fields(hwt.CHUNK_DTYPE, at)
        begin = at + hwt.CHUNK_HEADER_BYTES
        end = min(begin + int(chunk["used"]), len(data))
        if chunk["kind"] == hwt.CHUNK_EVENTS:
            for event in range(begin, end - hwt.EVENT_DTYPE.itemsize + 1, hwt.EVENT_DTYPE.itemsize):
                groups[2] += fields(hwt.EVENT_DTYPE, event)
        if chunk["kind"] == hwt.CHUNK_PACKED:
            groups[2] += [(event, 1) for event in range(begin, end)]
        while chunk["kind"] == hwt.CHUNK_META and begin + hwt.META_DTYPE.itemsize <= end:
            meta = np.frombuffer(data, hwt.META_DTYPE, 1, begin)[0]
            dtype = RECORDS.get(int(meta["type"]), hwt.META_DTYPE)
            groups[3] += fields(hwt.META_DTYPE, begin) + fields(dtype, begin)
            if int(meta["bytes"]) > dtype.itemsize:
                groups[3].append((begin + dtype.itemsize, min(8, int(meta["bytes"]) - dtype.itemsize)))
            begin += max(8, int(meta["bytes"]))
    return [group for group in groups if group]


def chunks_at(data: bytes, first: int) -> Iterator[int]:
    """Yield the offsets of all chunks of a valid file, the first of which is at `first`; some share places."""
    for place in range(first, len(data) - hwt.CHUNK_HEADER_BYTES + 1, hwt.CHUNK_BYTES):
        at, following = place, 1
        while following:
            yield at
            following = int(np.frombuffer(data, hwt.CHUNK_DTYPE, 1, at)[0]["next"])
            at += hwt.CHUNK_HEADER_BYTES + following


def fields(dtype: np.dtype, at: int) -> list[tuple[int, int]]:
    """Return (offset, bytes) of a struct's fields."""
    columns: Mapping[str, Any] = dtype.fields or {}
    return [(at + columns[name][1], min(8, columns[name][0].itemsize)) for name in dtype.names or ()]


class Mutator:
    """Changes the bytes of valid files.

    Args:
        seeds: Valid files.
        chance: The source of all random choices.
    """

    def __init__(self, seeds: list[bytes], chance: random.Random) -> None:
        self._seeds = seeds
        self._places = [places(seed) for seed in seeds]
        self._chance = chance

    def next(self) -> bytes:
        """Return a file that may be damaged in one place, or in many."""
        chance = self._chance
        index = chance.randrange(len(self._seeds))
        data = bytearray(self._seeds[index])
        changes: list[Callable[[bytearray, int], None]] = [self._swap, self._splice, self._cut, self._zero]
        for _ in range(3):
            changes += [self._field, self._field, self._flip]
        for _ in range(chance.choice([1, 1, 1, 2, 3, 5, 10, 40, 200])):
            chance.choice(changes)(data, index)
        return bytes(data)

    def _field(self, data: bytearray, index: int) -> None:
        offset, size = self._chance.choice(self._chance.choice(self._places[index]))
        if offset + size > len(data):
            return
        before = int.from_bytes(data[offset : offset + size], "little")
        value = self._chance.choice(
            [
                self._chance.choice(NUMBERS),
                before + self._chance.choice([-(2**16), -256, -8, -1, 1, 8, 256, 2**16]),
                before ^ 1 << self._chance.randrange(8 * size),
                self._chance.getrandbits(8 * size),
            ]
        )
        data[offset : offset + size] = (value % 256**size).to_bytes(size, "little")

    def _flip(self, data: bytearray, index: int) -> None:
        if data:
            offset, _ = self._chance.choice(self._chance.choice(self._places[index]))
            offset = self._chance.choice([offset, self._chance.randrange(len(data))])
            if offset < len(data):
                data[offset] ^= 1 << self._chance.randrange(8)

    def _swap(self, data: bytearray, index: int) -> None:
        group = self._chance.choice(self._places[index])
        (one, size), (other, other_size) = self._chance.choice(group), self._chance.choice(group)
        size = min(size, other_size)
        if max(one, other) + size <= len(data):
            data[one : one + size], data[other : other + size] = data[other : other + size], data[one : one + size]

    def _splice(self, data: bytearray, _: int) -> None:
        """Copy a piece of some file over another place, often in units of whole chunks."""
        source = self._chance.choice(self._seeds)
        size = self._chance.choice([8, 16, 24, 64, 256, hwt.CHUNK_BYTES])
        grain = self._chance.choice([1, 8, 16, hwt.CHUNK_BYTES])
        start = self._chance.randrange(len(source)) // grain * grain
        offset = self._chance.randrange(max(1, len(data))) // grain * grain
        piece = source[start : start + size]
        data[offset : offset + len(piece)] = piece

    def _zero(self, data: bytearray, _: int) -> None:
        size = self._chance.choice([1, 8, 64, 4096])
        offset = self._chance.randrange(max(1, len(data)))
        data[offset : offset + size] = bytes(len(data[offset : offset + size]))

    def _cut(self, data: bytearray, _: int) -> None:
        if self._chance.random() < 0.3:
            del data[self._chance.randrange(len(data) + 1) :]


def seeds(paths: list[Path]) -> list[bytes]:
    """Return the files to start from: those given, or some that are made here."""
    if paths:
        found = [path.read_bytes() for path in paths if path.stat().st_size <= MOST_FILE_BYTES]
        if not found:
            sys.exit(f"none of the files is {MOST_FILE_BYTES // 2**20} MiB or smaller")
        return found
    # Imported by name, because tests/ is not checked together with the tools.
    made_trace = importlib.import_module("made_traces").made_trace
    packed_chunks = importlib.import_module("packed_chunks")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "seed.hwt"
        made: tuple[tuple[int, int, int, dict[str, Any]], ...] = (
            (0, 1, 1, {}),
            (60, 3, 1, {"events_per_chunk": 8, "short_holds": True}),
            (400, 5, 2, {"events_per_chunk": 50}),
            (400, 6, 3, {"events_per_chunk": 10, "room": 30}),
        )
        found = []
        for events, threads, gils, options in made:
            write(made_trace(events=events, threads=threads, gils=gils, seed=7), path, **options)
            found.append(path.read_bytes())
            found.append(packed_chunks.share_places(packed_chunks.pack_file(path)).read_bytes())
        return found


def trouble(path: Path) -> str:
    """Read a file; return a description of what is wrong with how that went, or ""."""
    begun_s = time.process_time()
    found: list[str] = []
    try:
        trace = read(path)
        found += violations(trace)
        part, overview = read_part(path, lambda whole: ((whole.start_ns + whole.end_ns) // 2, 20), most=0)
        found += violations(part)
        if overview is not None and part.start_ns > part.end_ns:
            found.append("a part that ends before its beginning")
        for index in range(0, len(trace.stack_parent), 1 + len(trace.stack_parent) // 16):
            trace.stack(index)
    except TraceError:
        pass  # the file is refused; violations of what was read before still count
    except MemoryError:
        return f"takes more than {MOST_BYTES // 2**20} MiB"
    except Exception:  # noqa: BLE001 - any other exception is a failure of the reader
        return traceback.format_exc()
    took_s = time.process_time() - begun_s
    if took_s > MOST_S:
        return f"took {took_s:.1f} s"
    return "\n".join(found)


def main() -> int:
    """Fuzz until the time is over; return the exit status."""
    parser = argparse.ArgumentParser(description="Read damaged trace files.")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument(
        "--keep", type=Path, default=ROOT / "build" / "fuzz-traces", help="where inputs that fail are saved"
    )
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(2**32)
    mutator = Mutator(seeds(options.files), random.Random(seed))

    # Limits the address space, beyond what Python and numpy have mapped by now.
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MOST_BYTES, resource.RLIM_INFINITY))
    failures: dict[str, int] = {}
    tried = 0
    until_s = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        path = Path(folder) / "x.hwt"
        while time.monotonic() < until_s:
            path.write_bytes(mutator.next())
            found = trouble(path)
            tried += 1
            if found:
                # Failures at the same place count as one finding.
                where = "\n".join(line for line in found.splitlines() if line.lstrip().startswith("File")) or found
                failures[where] = failures.get(where, 0) + 1
                if failures[where] == 1:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    kept = options.keep / f"{seed}-{tried}.hwt"
                    shutil.copy(path, kept)
                    print(f"{kept}\n{found}\n", flush=True)
    print(f"seed {seed}: {tried} files read, {sum(failures.values())} failures in {len(failures)} places")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
