"""Files and the device below them.

The experiments are file-io (A2, A3), file-write (D2, D9), file-write-and-sigma (D4) and disk-baseline (D10).
"""

from headway.lab.design import (
    Claim,
    Comparison,
    Experiment,
    Published,
    Size,
    Variant,
    above,
    below,
    between,
    both_kinds,
    over_serial,
)

__all__ = ["EXPERIMENTS"]

_KIB, _MIB = 2**10, 2**20


def _size_name(size_bytes: int) -> str:
    return f"{size_bytes // _MIB} MiB" if size_bytes >= _MIB else f"{size_bytes // _KIB} KiB"


# ---------------------------------------------------------------- file-io
_POOL = 30
_MODELS = (("serial", "serial"), ("threads", "threads"), ("processes", "processes-spawn"), ("asyncio", "asyncio"))
_LARGEST = 100 * _MIB


def _io(
    series: str, model: str, size: Size, size_bytes: int, volume: str, *, sync: bool = False, workers: int = _POOL
) -> Variant:
    # Fewer of the largest files at quick size: a launch at the author's size takes seconds and 3 GB.
    files = 6 if size == "quick" and size_bytes >= _LARGEST else _POOL
    if model == "processes-spawn" and size != "published":
        workers = 4
    return Variant(
        series=series,
        setting=(_size_name(size_bytes), volume, *(("fsync",) if sync else ())),
        workload="file-io",
        model=model,
        params={
            "size_bytes": size_bytes,
            "files": files,
            "workers": min(workers, files),
            "volumes": [volume],
            "sync": sync,
        },
        samples=(1 if size_bytes > _MIB else 5) if size == "quick" else 2,
        warmups=0 if size_bytes >= _LARGEST else 1,
        # The bytes that each worker reads, and, in a process, its own copy of the bytes that it writes.
        memory_bytes=min(workers, files) * size_bytes * (2 if model.startswith("processes") else 1),
        space={volume: files * size_bytes},
    )


def _file_io(size: Size) -> list[Variant]:
    sizes = (4 * _KIB, 64 * _KIB, _MIB, 10 * _MIB, 100 * _MIB)
    variants = []
    for volume in ("disk", "tmpfs"):
        for size_bytes in sizes:
            if size == "quick" and size_bytes > _MIB and volume == "tmpfs":
                continue
            # At quick size only serial and threads run the sweep; all models run one size, on the disk.
            models = _MODELS if size != "quick" or (size_bytes, volume) == (_MIB, "disk") else _MODELS[:2]
            variants += [_io(series, model, size, size_bytes, volume) for series, model in models]
    variants += [_io(series, model, size, _MIB, "disk", sync=True) for series, model in _MODELS[:2]]
    variants += [
        _io(f"{count} threads", "threads", size, _MIB, volume, workers=count)
        for volume in ("disk", "tmpfs")
        for count in (2, 4, 8)
    ]
    return variants


_FILE_IO = Experiment(
    name="file-io",
    question="Do threads make file work faster, and up to which file size?",
    method=(
        "30 files of 4 KiB to 100 MiB random bytes (six files of 100 MiB at quick size) are written, read back and removed, on "
        "the disk and in memory (tmpfs), with a warm page cache; at 1 MiB also with fsync, and with pools of 2, 4 and 8 "
        "threads instead of 30 (processes: 4, and 30 at published size). asyncio's coroutines never await."
    ),
    included="Writing, reading, removing. Every worker creates the bytes beforehand; their cost is shown separately.",
    baseline="serial",
    variants=_file_io,
    besides=(("urandom_s", "creating the random bytes of one file: not part of any figure"),),
    sweep="size_bytes",
    sources=("A2", "A3"),
    quick_on=both_kinds,
    claims=(
        Claim(
            id="file-io/threads-1-mib",
            text="threads are faster with files of 1 MiB, which the page cache absorbs",
            evidence=lambda _: [over_serial("threads", "1 MiB, disk", below(1))],
            source="A2",
            published=(Published("A2", "threads", "serial"),),
            why="open, write, read and unlink release the GIL, so the copying runs on several cores",
        ),
        Claim(
            id="file-io/threads-10-mib",
            text="threads are faster with files of 10 MiB",
            evidence=lambda _: [over_serial("threads", "10 MiB, disk", below(1))],
            source="A3",
            published=(Published("A3", "threads", "serial", "10 MiB"),),
            why="open, write, read and unlink release the GIL, so the copying runs on several cores",
        ),
        Claim(
            id="file-io/threads-100-mib",
            text="threads are slower with files of 100 MiB, past the device's bandwidth",
            evidence=lambda _: [
                Comparison(top="threads, 100 MiB, disk", bottom="serial, 100 MiB, disk", relation=above(1))
            ],
            source="A3",
            published=(Published("A3", "threads", "serial", "100 MiB"),),
            why="the device is the limit, and concurrent streams disturb each other",
            denies="Files of 100 MiB do not reverse the order here: threads take {ratio} of the serial time. The page cache "
            "absorbs them, or the device is fast enough.",
        ),
        Claim(
            id="file-io/processes-between",
            text="processes gain less than threads",
            evidence=lambda _: [
                Comparison(top="processes, 1 MiB, disk", bottom="threads, 1 MiB, disk", relation=above(1))
            ],
            source="A2",
            published=(Published("A2", "processes", "threads"),),
            why="tasks and results cross a pipe",
        ),
        Claim(
            id="file-io/small-pool",
            text="four threads are as fast as thirty with files of 1 MiB",
            evidence=lambda _: [
                Comparison(top="4 threads, 1 MiB, disk", bottom="threads, 1 MiB, disk", relation=below(1.05))
            ],
            source="Headway",
            why="more threads than cores do not copy faster, and each hand-off has a cost",
            says="A pool of four threads takes {ratio} of the time of a pool of thirty, with files of 1 MiB.",
            advice="Size a pool for files by the cores, not by the number of files.",
        ),
        Claim(
            id="file-io/fsync-overlaps",
            text="threads are faster with fsync, because waits for the device overlap",
            evidence=lambda _: [over_serial("threads", "1 MiB, disk, fsync", below(1))],
            source="Headway",
            why="one flush of the device serves several files",
            says="If every file is synced, threads take {ratio} of the serial time.",
            advice="Sync files from several threads rather than one after the other.",
        ),
    ),
)

# ---------------------------------------------------------------- file-write
_TWO = "two file systems"


def _write(
    series: str,
    size: Size,
    files: int,
    where: str,
    *,
    via: str = "",
    setting: tuple[str, ...] | None = None,
    **more: object,
) -> Variant:
    size_bytes = {"quick": 16 * _MIB, "standard": 64 * _MIB, "published": 512 * _MIB}[size]
    volumes = {"disk": ["disk"], "tmpfs": ["tmpfs"], _TWO: ["disk", "second"]}[where]
    count = "1 file" if files == 1 else f"{files} files"
    library, _, context = via.partition("/")
    need = f"{library}/{context}" if context else library
    return Variant(
        series=series,
        setting=(count, where) if setting is None else setting,
        workload="file-write",
        model="asyncio" if via else "serial",
        params={"size_bytes": size_bytes, "files": files, "volumes": volumes, "via": via, **more},
        # A write of 16 MiB takes milliseconds, so the median of a launch must withstand a few writes that were held up.
        samples=(9 if files == 1 else 5) if size == "quick" else 2,
        warmups=1,
        needs=(need,) if need else (),
        space=dict.fromkeys(volumes, files * size_bytes),
    )


def _file_write(size: Size) -> list[Variant]:
    pairs = [(1, "disk"), (10, "disk"), (5, "disk"), (5, _TWO), (5, "tmpfs")]
    variants = [_write("serial", size, files, where) for files, where in pairs]
    variants += [_write("aiofiles", size, files, where, via="aiofiles") for files, where in pairs]
    for files, where in ((10, "disk"), (5, "tmpfs")):
        variants += [
            _write("aiofiles, semaphore 2", size, files, where, via="aiofiles", limit=2),
            *(
                _write(f"aiofiles, {count} worker{'s' * (count > 1)}", size, files, where, via="aiofiles", pool=count)
                for count in (1, 2, 4)
            ),
        ]
    variants += [
        _write("aiofile, io_uring", size, 10, "disk", via="aiofile/uring"),
        _write("aiofile, libaio", size, 10, "disk", via="aiofile/aio"),
    ]
    return variants


_NO_GAIN = above(0.9)

_FILE_WRITE = Experiment(
    name="file-write",
    question="Does asyncio gain anything on large writes?",
    method=(
        "One, five and ten new files of zero bytes, 16 MiB each (quick), 64 MiB or 512 MB, are written and removed: serially, "
        "gathered through aiofiles (on a thread pool), with a semaphore of 2, with pools of 1, 2 and 4 threads, and through "
        "aiofile on io_uring and libaio if the kernel permits them. The files are on the disk, in memory (tmpfs), and spread "
        "over two file systems (the second is tmpfs if there is no other)."
    ),
    included="Opening, writing, closing, removing; loop and pool have started before.",
    baseline="serial",
    variants=_file_write,
    sources=("D2", "D9"),
    quick_on=both_kinds,
    claims=(
        Claim(
            id="file-write/one-file",
            text="one file takes about as long with aiofiles as with a plain write (within 25 %)",
            evidence=lambda _: [over_serial("aiofiles", "1 file, disk", between(0.75, 1.25))],
            source="D2",
            published=(Published("D2", "asyncio", "serial", "one temporary file"),),
            why="one write is one call in one thread of the pool",
        ),
        Claim(
            id="file-write/ten-files-no-gain",
            text="ten gathered files are no faster than ten serial files",
            evidence=lambda _: [over_serial("aiofiles", "10 files, disk", _NO_GAIN)],
            source="D2",
            published=(Published("D2", "asyncio_gather", "serial", "ten temporary"),),
            why="the device is the limit",
            denies="Ten large writes through aiofiles take {ratio} of the serial time here: the limit is the copying into the "
            "page cache, which runs on several cores, and not the device.",
        ),
        Claim(
            id="file-write/five-files-no-gain",
            text="five gathered files on the machine's disk are no faster than five serial files",
            evidence=lambda _: [over_serial("aiofiles", "5 files, disk", _NO_GAIN)],
            source="D9",
            published=(Published("D9", "asyncio_gather", "serial", "machine's disk"),),
            why="the device is the limit",
        ),
        Claim(
            id="file-write/two-file-systems",
            text="five gathered files spread over two file systems are no faster than five serial files",
            evidence=lambda _: [over_serial("aiofiles", f"5 files, {_TWO}", _NO_GAIN)],
            source="D9",
            published=(Published("D9", "asyncio_gather", "serial", "two file systems"),),
            why="the slower of the two is the limit",
        ),
        Claim(
            id="file-write/tmpfs-gains",
            text="aiofiles is faster on tmpfs, because of its threads",
            evidence=lambda _: [over_serial("aiofiles", "5 files, tmpfs", below(0.9))],
            source="D9",
            published=(Published("D9", "asyncio_gather", "serial", "threads under aiofiles"),),
            why="copying to memory runs on as many cores as there are threads",
            says="In memory (tmpfs) gathered writes through aiofiles take {ratio} of the serial time.",
        ),
        Claim(
            id="file-write/pool-bounds",
            text="a pool of two threads limits the gain on tmpfs to a factor of two",
            evidence=lambda _: [over_serial("aiofiles, 2 workers", "5 files, tmpfs", above(0.45))],
            source="D9",
            published=(Published("D9", "asyncio_gather", "serial", "pool of two"),),
            why="two threads write at a time",
        ),
    ),
)


def _file_write_and_sigma(size: Size) -> list[Variant]:
    n = {"quick": 200_000, "standard": 1_000_000, "published": 10_000_000}[size]
    return [
        _write("serial", size, 10, "disk", setting=(), sums=3, n=n),
        _write("aiofiles", size, 10, "disk", setting=(), via="aiofiles", sums=3, n=n),
    ]


_FILE_WRITE_AND_SIGMA = Experiment(
    name="file-write-and-sigma",
    question="Do large writes overlap with CPU work beside them?",
    method=(
        "Ten writes on the disk, as in file-write, and three sums of 0..200,000 (quick), 1,000,000 or 10,000,000 run serially, "
        "or gathered with aiofiles and with the sums in coroutines that never await."
    ),
    included="Opening, writing, closing, removing, adding.",
    baseline="serial",
    variants=_file_write_and_sigma,
    sources=("D4",),
    quick_on=both_kinds,
    claims=(
        Claim(
            id="file-write-and-sigma/little-gain",
            text="gathered writes and sums gain a tenth at most",
            evidence=lambda _: [Comparison(top="aiofiles", bottom="serial", relation=above(0.9))],
            source="D4",
            published=(Published("D4", "asyncio_gather", "serial"),),
            why="neither the writes nor the sums wait for anything but each other",
        ),
    ),
)

# ---------------------------------------------------------------- disk-baseline
_RUNS: tuple[tuple[tuple[str, ...], dict[str, object]], ...] = (
    (("sequential", "new files"), {"concurrent": False, "overwrite": False}),
    (("sequential", "overwriting"), {"concurrent": False, "overwrite": True}),
    (("concurrent", "new files"), {"concurrent": True, "overwrite": False}),
    (("concurrent", "overwriting"), {"concurrent": True, "overwrite": True}),
    (("sequential", "new files", "synced"), {"concurrent": False, "overwrite": False, "sync": True}),
    (("concurrent", "new files", "synced"), {"concurrent": True, "overwrite": False, "sync": True}),
    (("tmpfs", "sequential"), {"concurrent": False, "overwrite": False, "volumes": ["tmpfs"]}),
    (("tmpfs", "concurrent"), {"concurrent": True, "overwrite": False, "volumes": ["tmpfs"]}),
)


def _disk_baseline(size: Size) -> list[Variant]:
    size_bytes = {"quick": 32 * _MIB, "standard": 128 * _MIB, "published": 2**28}[size]
    return [
        Variant(
            series="dd",
            setting=setting,
            workload="disk-baseline",
            model="serial",
            params={"volumes": ["disk"], "size_bytes": size_bytes, **params},
            samples=1 if size == "quick" else 3,
            warmups=0,
            native=True,
            needs=("dd",),
            space={"tmpfs" if "tmpfs" in setting else "disk": 5 * size_bytes},
        )
        for setting, params in _RUNS
    ]


def _run_over_run(top: str, bottom: str, metric: str, low: float, high: float) -> Comparison:
    return Comparison(top=f"dd, {top}", bottom=f"dd, {bottom}", metric=metric, relation=between(low, high))


_FILES_5 = tuple((f"file_{i}_bytes_per_s", f"file {i} of five") for i in range(1, 6))

_DISK_BASELINE = Experiment(
    name="disk-baseline",
    question="How fast does the device itself write, without Python?",
    method=(
        "dd writes zero bytes to five files, 32 MiB each (quick), 128 MiB or 256 MiB: one after the other and all at once, "
        "to new files and over existing files, into the page cache and (synced) down to the device, and in memory."
    ),
    included="Bytes per second over all five files, from the first start to the last end; below, each file's own rate from dd.",
    metric="sum_bytes_per_s",
    unit="bytes_per_s",
    shows="levels",
    besides=_FILES_5,
    baseline="dd",
    variants=_disk_baseline,
    sources=("D10",),
    claims=(
        Claim(
            id="disk-baseline/concurrent-slower-each",
            text="each of five concurrent streams is less than half as fast as one alone",
            evidence=lambda _: [
                _run_over_run("concurrent, new files", "sequential, new files", metric, 0, 0.5)
                for metric, _ in _FILES_5
            ],
            source="D10",
            published=(Published("D10", "concurrent, new files/file_3", "sequential, new files/file_3"),),
            scope="native",
            why="the streams share the device, the page cache and the cores",
        ),
        Claim(
            id="disk-baseline/no-faster-together",
            text="synced to the device, five concurrent streams are together no faster than one after the other",
            evidence=lambda _: [
                _run_over_run(
                    "concurrent, new files, synced", "sequential, new files, synced", "sum_bytes_per_s", 0, 1.1
                )
            ],
            source="Headway",
            scope="native",
            why="one stream fills the device",
            says="Five synced streams write no faster to the disk than one ({ratio}): threads cannot speed it up.",
            denies="Five synced streams write {ratio} times as fast to the disk as one: concurrent writes help.",
        ),
        Claim(
            id="disk-baseline/tmpfs-quicker",
            text="a stream to memory (tmpfs) is several times faster than a stream over existing files on the disk",
            evidence=lambda _: [
                _run_over_run("tmpfs, sequential", "sequential, overwriting", "file_1_bytes_per_s", 2, 1000)
            ],
            source="D10",
            published=(Published("D10", "tmpfs, sequential/file_1", "sequential, overwriting/file_1"),),
            scope="native",
            why="a write to tmpfs is only a copy in memory",
            denies="Writes that the page cache absorbs are about as fast as memory: tmpfs is {ratio} times as fast.",
        ),
    ),
)

EXPERIMENTS = (_FILE_IO, _FILE_WRITE, _FILE_WRITE_AND_SIGMA, _DISK_BASELINE)
