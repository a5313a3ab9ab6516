"""The surroundings of launches: a plan's needs, URLs, names of folders, and required space."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from synthetic import make_interpreter, make_machine

from headway.errors import UsageError
from headway.lab.beside import environments, redis, volumes
from headway.lab.beside.environments import Libraries
from headway.lab.beside.given import NOTHING, server_cpus
from headway.lab.beside.volumes import Volume, Volumes, find_volumes
from headway.lab.design import Variant, both_kinds, ends, newest_with_gil, oldest_and_free_threaded
from headway.lab.experiments import experiments
from headway.lab.launching.launch import _job
from headway.lab.plan import make_plan, needed

FOUND = [
    make_interpreter("3.8.18"),
    make_interpreter("3.12.1"),
    make_interpreter("3.13.0"),
    make_interpreter("3.13.5", free_threaded=True),
    make_interpreter("3.15.2"),
]


@pytest.mark.parametrize(
    ("choose", "names"),
    [
        (both_kinds, ["3.13t", "3.15"]),
        (oldest_and_free_threaded, ["3.8", "3.13t"]),
        (newest_with_gil, ["3.15"]),
        (ends, ["3.8", "3.13t", "3.15"]),
    ],
)
def test_quick_size_takes_the_interpreters_that_an_experiment_names(choose, names):
    """The choices keep the order, and make do with the interpreters that there are."""
    assert [one.name for one in choose(FOUND)] == names
    assert [one.name for one in choose(FOUND[:1])] == ["3.8"]
    assert [one.name for one in choose(FOUND[3:4])] == ["3.13t"]
    assert list(choose([])) == []


def plan(size="quick", **options):
    names = {"convoy", "redis-set", "cpu-bound"}
    chosen = [one for one in experiments() if one.name in names]
    return make_plan(chosen, FOUND, make_machine(), size=size, seed=1, **options)


def where(planned, experiment):
    return {cell.interpreter for cell in planned.cells if cell.experiment == experiment} - {"native"}


def test_only_an_unnamed_quick_run_is_narrowed():
    """Interpreters that the user named, and other sizes, are used in full."""
    narrow = plan(narrowed=True)

    assert where(narrow, "convoy") == {"3.13.5t", "3.15.2"}
    assert where(narrow, "redis-set") == {"3.8.18", "3.13.5t"}
    assert where(narrow, "cpu-bound") == {one.id for one in FOUND}
    for whole in (plan(narrowed=False), plan("standard", narrowed=True)):
        assert where(whole, "convoy") == {one.id for one in FOUND}


def test_what_is_missing_leaves_its_cells_out_with_the_reason():
    """A library that an interpreter lacks costs only the cells that need it there."""

    def missing(variant, interpreter):
        return "no hiredis" if "hiredis" in variant.needs and interpreter and interpreter.name == "3.8" else ""

    planned = plan(missing=missing)

    left_out = [(one.label, one.interpreter) for one in planned.skipped if one.reason == "no hiredis"]
    assert len(left_out) == 3
    assert {interpreter for _, interpreter in left_out} == {"3.8.18"}
    assert not any("hiredis" in cell.variant.needs and cell.interpreter == "3.8.18" for cell in planned.cells)


def test_what_is_needed_names_every_pair_once_and_only_where_it_can_run():
    """Each library is asked for once, on the interpreters that will use it."""
    chosen = [one for one in experiments() if one.name == "convoy"]
    pairs = needed(chosen, FOUND, size="quick", narrowed=True)

    assert {interpreter.name for _, interpreter in pairs} == {"3.13t", "3.15"}
    assert not any("0.5 ms" in variant.label for variant, interpreter in pairs if interpreter.free_threaded)


def test_a_need_may_ask_for_something_that_a_library_offers():
    """The need `aiofile/uring` is met where the library was built with it."""
    libraries = Libraries({("i", "aiofile"): Path("/x")}, {("i", "aiofile"): ("aio",)}, {("i", "redis"): "no network"})

    assert libraries.why_not("i", ["aiofile", "aiofile/aio"]) == ""
    assert libraries.why_not("i", ["aiofile/uring"]) == "aiofile offers no uring here"
    assert libraries.why_not("i", ["redis"]) == "no network"
    assert libraries.why_not("j", ["aiofile"]) == "aiofile was not installed"
    assert libraries.paths("i", ["aiofile/aio"]) == ("/x",)


def test_every_need_of_every_variant_has_a_lock():
    """Every library that an experiment needs can be installed, and locks name no registry."""
    for one in experiments():
        for size in ("quick", "standard", "published"):
            for variant in one.variants(size):
                names = {need.partition("/")[0] for need in variant.needs} - {"redis-benchmark", "dd"}
                assert names <= set(environments.LIBRARIES), variant.label
    for library in environments.LIBRARIES:
        text = environments._lock(library)
        assert f"{library}==" in text
        assert "://" not in text
        assert text.count("--hash=") > 0


@pytest.mark.parametrize("url", ["redis://me:secret@host:6380/2", "rediss://:secret@host:6380/2?x=secret"])
def test_a_url_is_shown_without_its_password(url):
    """The shown URL keeps its host, port and database."""
    shown = redis.without_password(url)

    assert "secret" not in shown
    assert "host:6380/2" in shown


def test_servers_are_put_where_the_launch_is_not():
    """The server has its own core under `split`, the launch's core under `same`, and all cores under `free`."""

    def cpus(place):
        variant = Variant(series="x", workload="http", model="serial", server="http", placements=(place,))
        experiment = next(one for one in experiments() if one.name == "http-sleep")
        changed = type(experiment)(**{**experiment.__dict__, "variants": lambda _size: [variant], "claims": ()})
        (cell,) = make_plan([changed], FOUND[:1], make_machine(4), size="quick", seed=1).cells
        return server_cpus(cell, make_machine(4))

    assert cpus("split") == (0,)
    assert cpus("same") == (3,)
    assert cpus("free") == (0, 1, 2, 3)


def test_threads_on_one_core_have_one_on_a_machine_with_more():
    """Under `split` the clients of `redis-set` have one core apart from the server's; other clients have all others."""
    machine = make_machine(4)

    def cpus(name):
        (one,) = (one for one in experiments() if one.name == name)
        cells = make_plan([one], FOUND[:1], machine, size="quick", seed=1, placement="split").cells
        return {tuple(_job([cell], machine, None, 1.0, NOTHING)["cpus"]) for cell in cells}

    assert cpus("redis-set") == {(1,)}
    assert cpus("http-sleep") == {(1, 2, 3)}


def test_folders_are_made_on_their_volumes_and_removed(tmp_path, monkeypatch):
    """Each volume's folder lies there, has our process number in its name, and is removed with its contents."""
    monkeypatch.setenv("HEADWAY_DISK", str(tmp_path))
    volumes = find_volumes()

    folders = volumes.make_folders(["disk", "tmpfs"])
    Path(folders["disk"], "file").write_bytes(b"x")

    assert Path(folders["disk"]).parent == tmp_path
    assert all(Path(folder).is_dir() for folder in folders.values())
    from headway.lab.beside.volumes import remove_folders

    remove_folders(folders)
    assert not any(Path(folder).exists() for folder in folders.values())


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("HEADWAY_DISK", "/nowhere", "expected a folder that you may write to"),
        ("HEADWAY_DISK", "/proc/self/cwd/loop", "expected a folder that you may write to"),
        ("HEADWAY_DISK", "/dev/shm", "expected one on a disk"),
        ("HEADWAY_DISK", "/proc", "expected a folder that you may write to"),
        ("HEADWAY_TMPFS", "/usr", "no folder|expected one in memory"),
    ],
)
def test_a_folder_of_the_wrong_kind_is_refused(variable, value, words, monkeypatch, tmp_path):
    """The error names the variable, its value and what was expected."""
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(variable, value)

    with pytest.raises(UsageError, match=f"{variable} is {value}.*({words})") as caught:
        find_volumes()
    assert caught.value.hint


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/mnt/été/files", "ext4"),
        ("/mnt/with space/files", "xfs"),
        ("/mnt/back\\slash", "btrfs"),
        (os.fsdecode(b"/mnt/latin-\xe9/x"), "vfat"),
        ("/mnt/no-break\u00a0space", "nfs"),
        ("/mnt/other", "overlay"),
    ],
)
def test_a_volumes_type_is_that_of_its_mount_whatever_its_name(tmp_path, monkeypatch, folder, kind):
    """Names of mounts may have letters beyond ASCII, escapes of the kernel, and bytes that are no UTF-8."""
    mounts = {
        "/": "overlay",
        "/mnt/été": "ext4",
        r"/mnt/with\040space": "xfs",
        r"/mnt/back\134slash": "btrfs",
        os.fsdecode(b"/mnt/latin-\xe9"): "vfat",
        "/mnt/no-break\u00a0space": "nfs",
    }
    lines = [f"36 35 98:0 / {point} rw,noatime master:1 - {type_} /dev/x rw\n" for point, type_ in mounts.items()]
    (tmp_path / "mountinfo").write_bytes(os.fsencode("".join(lines)))
    monkeypatch.setattr(volumes, "_MOUNTS", tmp_path / "mountinfo")

    assert volumes._type(Path(folder)) == kind


def test_space_is_asked_for_with_a_margin(tmp_path):
    """A file that just fits is refused, because others need the file system too; a missing volume says how to name one."""
    disk = Volume("disk", tmp_path, "ext4", 1)
    volumes = Volumes({"disk": disk})

    assert volumes.why_not({"disk": 1}) == ""
    assert "MiB free" in volumes.why_not({"disk": disk.free_bytes()})
    assert "HEADWAY_TMPFS" in volumes.why_not({"tmpfs": 1})


def test_one_core_is_shared_with_the_server():
    """Requests run on one core all the same, and the convoy, which needs two sides, says why it does not."""
    chosen = [one for one in experiments() if one.name in {"http-sleep", "convoy"}]
    planned = make_plan(chosen, FOUND[:1], make_machine(1), size="quick", seed=1)

    assert {cell.placement for cell in planned.cells} == {"free"}
    assert {cell.experiment for cell in planned.cells} == {"http-sleep"}
    assert "needs two cores" in {one.reason for one in planned.skipped if one.experiment == "convoy"}.pop()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://host:6379", ""),
        ("redis://host/0", ""),
        ("redis://:word@host/0", "password"),
        ("redis://host/3", "database 0"),
        ("redis://host/0?password=x", "without options"),
        ("rediss://host/0", "only through redis"),
        ("redis://[::1]:6379/0", "IPv4"),
        ("unix:///tmp/redis.sock", "only through redis"),
    ],
)
def test_programs_in_c_are_kept_off_a_redis_that_they_would_misuse(url, words):
    """A program in C is not used if it would leave a key in a foreign database, or show a password among its arguments."""
    assert words in redis.only_through_a_client(url)
    assert bool(words) == bool(redis.only_through_a_client(url))


@pytest.mark.parametrize("url", ["redis://:s3cret/x@host", "redis://:s3cret@host:port", "redis://[::1"])
def test_a_bad_url_is_told_without_its_password(url):
    """The parser's own message is not shown, because it may contain a part of the password."""
    with pytest.raises(UsageError) as caught:
        redis.check_url(url, "REDIS_URL")
    assert "s3cret" not in caught.value.message + caught.value.hint
    assert "REDIS_URL" in caught.value.message


def test_ctrl_c_while_installations_are_handed_out_ends_those_that_run(monkeypatch):
    """Ctrl-C ends the installations that already run while others are being submitted.

    The first one is running at that time, and nothing else would end it before it is done.
    """
    stopped = threading.Event()
    monkeypatch.setattr(environments._Installer, "ready", lambda *_: stopped.wait())
    monkeypatch.setattr(environments._Installer, "stop", lambda _: stopped.set())
    monkeypatch.setattr(environments, "_folder", lambda one, library: Path("/nonexistent") / one.id / library)

    class Pool(ThreadPoolExecutor):
        handed_out = 0

        def submit(self, *call):
            self.handed_out += 1
            if self.handed_out > 1:
                raise KeyboardInterrupt
            return super().submit(*call)

    monkeypatch.setattr("concurrent.futures.ThreadPoolExecutor", Pool)
    with pytest.raises(KeyboardInterrupt):
        environments.prepare([(FOUND[0], "aiohttp"), (FOUND[1], "aiohttp")])
    assert stopped.is_set()
