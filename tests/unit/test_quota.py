"""The CPU quota of a process, from made trees of cgroups."""

import math

import pytest

from headway.host import quota


@pytest.fixture
def limited(tmp_path, monkeypatch):
    """Return a function that sets the lines of the process's groups, and the files of some groups."""

    def make(lines, files):
        own = tmp_path / "self"
        own.write_text("".join(f"{line}\n" for line in lines))
        monkeypatch.setattr(quota, "_OWN", own)
        monkeypatch.setattr(quota, "_CGROUPS", tmp_path / "cgroup")
        for name, text in files.items():
            file = tmp_path / "cgroup" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{text}\n")

    return make


V2 = {"cpu.max": "max 100000", "slice/cpu.max": "150000 100000", "slice/service/cpu.max": "400000 100000"}


def v1(folder, **quotas_us):
    """Return the files of groups with these quotas, each in a period of 0.1 s."""
    return {
        f"{folder}/{group.replace('_', '/')}/cpu.cfs_{name}_us": text
        for group, quota_us in quotas_us.items()
        for name, text in (("quota", quota_us), ("period", 100_000))
    }


@pytest.mark.parametrize(
    ("lines", "files", "cores"),
    [
        (["0::/slice/service"], V2, 1.5),
        (["0::/"], V2, math.inf),
        (["4:memory:/x", "1:cpu:/pod/box", "0::/"], v1("cpu", pod=-1, pod_box=50_000), 0.5),
        (["1:cpu,cpuacct:/pod/box"], v1("cpu,cpuacct", pod=20_000, pod_box=50_000), 0.2),
        (["1:cpuset:/pod", "2:cpu:/"], v1("cpu", pod=20_000), math.inf),
        (["3:cpu:/docker/4711"], {"cpu/cpu.cfs_quota_us": "30000", "cpu/cpu.cfs_period_us": "100000"}, 0.3),
        (["0::/"], {"cpu.max": "30000 100000"}, 0.3),
        (["0::/"], {}, math.inf),
        ([], {"cpu/cpu.cfs_quota_us": "30000", "cpu/cpu.cfs_period_us": "100000"}, 0.3),
        (["0::/"], {"cpu.max": "a b"}, math.inf),
    ],
    ids=[
        "v2",
        "v2-root",
        "v1",
        "v1-above",
        "v1-other",
        "v1-in-a-container",
        "v2-in-a-container",
        "none",
        "untold",
        "odd",
    ],
)
def test_the_least_quota_of_the_own_groups_applies(limited, lines, files, cores):
    """A process is bound by its own group and by those above it, in either version, and by no other group."""
    limited(lines, files)

    assert quota.quota_cores() == cores
