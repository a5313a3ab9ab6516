"""The memory that control groups leave to a process, from made trees of them."""

import pytest

from headway.host import memory

GIB = 1 << 30


@pytest.fixture
def left(tmp_path, monkeypatch):
    """Return a function that returns what a process's groups leave it, from the lines and the files of its groups."""
    monkeypatch.setattr(memory, "_GROUPS", tmp_path / "cgroup")

    def of(line, files, *caches):
        for name, text in files.items():
            file = tmp_path / "cgroup" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{text}\n")
        return list(memory._left_by_groups(f"{line}\n", caches or ("inactive_file",)))

    return of


@pytest.mark.parametrize(
    ("used", "stat", "free"),
    [
        (7, f"anon 5\nfile {6 * GIB}\ninactive_file {4 * GIB}\nactive_file {2 * GIB}", 5),
        (7, "anon 5", 1),
        (9, "inactive_file 0", 0),
        (7, "inactive_file", 1),
    ],
)
def test_files_that_nobody_uses_leave_memory_free(left, used, stat, free):
    """The kernel gives up such pages before it swaps; a usage above the limit leaves nothing."""
    files = {"one/memory.max": 8 * GIB, "one/memory.current": used * GIB, "one/memory.stat": stat, "memory.max": "max"}

    assert left("0::/one", files) == [free * GIB]


def test_the_first_version_of_control_groups_counts_likewise(left):
    """Its figures include the groups below if they begin with `total`."""
    files = {
        "memory/one/memory.limit_in_bytes": 8 * GIB,
        "memory/one/memory.usage_in_bytes": 7 * GIB,
        "memory/one/memory.stat": f"inactive_file 0\ntotal_inactive_file {4 * GIB}",
    }

    assert left("5:memory:/one", files) == [5 * GIB]


def test_files_in_use_may_count_as_free(left):
    """The kernel gives them up, too, before it kills a process."""
    stat = f"inactive_file {GIB}\nactive_file {2 * GIB}"
    files = {"one/memory.max": 8 * GIB, "one/memory.current": 7 * GIB, "one/memory.stat": stat}

    assert left("0::/one", files, "inactive_file", "active_file") == [4 * GIB]
