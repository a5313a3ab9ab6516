"""Adding redis-benchmark from an archive made for the test, by the machine's own apt and without network."""

import shutil
import subprocess
from pathlib import Path

import pytest
from made_archive import (
    NEEDS_LIBRARY,
    Package,
    add_library,
    in_cache,
    needs_apt,
    set_up_machine,
    write_archive,
    write_executable,
)
from provision import apt_program, redis_tools

from headway.lab.beside.surroundings import find_redis_benchmark
from headway.provision.archive import Archive, ProvisionError, find_release_archives

PROGRAM = f"""\
#!/bin/sh
{NEEDS_LIBRARY}
echo "redis-benchmark 7.0 $*"
"""


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """Make this a machine of the release `moon` without redis-benchmark, whose apt configuration is in tmp_path/apt."""
    monkeypatch.delenv("HEADWAY_REDIS_BENCHMARK", raising=False)
    set_up_machine(tmp_path, monkeypatch, ["redis-benchmark", "valkey-benchmark"])


@pytest.fixture
def make_archive(tmp_path, monkeypatch):
    """Return a function that makes an archive of redis-tools and its library, named in the apt configuration."""

    def make(program: str = PROGRAM, soname: str = "libfake.so.1") -> Path:
        folder = tmp_path / "archive"
        write_executable(folder / "roots/redis-tools/usr/bin/redis-benchmark", program)
        depends = "Pre-Depends: libc6 (>= 2.1)\nDepends: adduser, libc6 (>= 2.34), libfake1 (>= 1.5) | libother1\n"
        write_archive(tmp_path, monkeypatch, [Package("redis-tools", depends), add_library(folder, soname)])
        return folder

    return make


def run_tool(tmp_path: Path, *arguments: str) -> Path:
    """Run the tool, and return the path at which it must put the program."""
    assert redis_tools.main(list(arguments), etc_apt=tmp_path / "apt") == 0
    return tmp_path / "cache/headway/redis-tools/bin/redis-benchmark"


@pytest.mark.slow
@needs_apt
def test_it_is_made_with_the_library_that_the_machine_lacks(tmp_path, make_archive, capsys):
    """The lab finds a program that runs in an empty environment, also through a link, and one line says so."""
    make_archive()

    program = run_tool(tmp_path)

    said = capsys.readouterr().err
    assert said == f"redis-benchmark: added {program} from redis-tools 1:7.0-1 with libfake.so.1\n"
    assert find_redis_benchmark() == str(program)
    assert in_cache(tmp_path) == ["provision", "redis-tools"]
    (tmp_path / "link").symlink_to(program)
    done = subprocess.run([tmp_path / "link", "-p", "a b"], env={}, capture_output=True, text=True, check=True)
    assert done.stdout == "redis-benchmark 7.0 -p a b\n"


@pytest.mark.slow
@needs_apt
def test_a_second_run_does_nothing_unless_forced(tmp_path, make_archive, capsys):
    """A program that runs is kept; --force replaces it, and so does a run if it no longer works."""
    make_archive()
    # A replaced folder has no mark. An inode number proves nothing, because the new file may get the old one's.
    mark = run_tool(tmp_path).parents[1] / "mark"
    mark.touch()
    capsys.readouterr()

    run_tool(tmp_path)
    assert mark.exists()
    assert capsys.readouterr().err == ""
    run_tool(tmp_path, "--force")
    assert not mark.exists()
    mark.touch()
    (mark.parent / "lib/libfake.so.1").unlink()
    run_tool(tmp_path)
    assert not mark.exists()
    assert capsys.readouterr().err.count("added") == 2
    assert in_cache(tmp_path) == ["provision", "redis-tools"]


@pytest.mark.slow
@needs_apt
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"program": "#!/bin/sh\necho odd error: >&2\nexit 3\n"}, "failed (exit code 3): odd error:"),
        ({"soname": "libwrong.so.1"}, "no package that redis-tools depends on has libfake.so.1"),
    ],
)
def test_one_that_does_not_run_never_appears(tmp_path, make_archive, capsys, arguments, reason):
    """A program that does not run is not installed, and one line says why."""
    make_archive(**arguments)

    run_tool(tmp_path)

    said = capsys.readouterr().err
    assert reason in said
    assert said.count("\n") == 1
    assert (find_redis_benchmark(), in_cache(tmp_path)) == ("", ["provision"])


@pytest.mark.slow
@needs_apt
def test_without_the_archive_the_reason_is_apts(tmp_path, make_archive, capsys):
    """The message of apt about an unreachable archive is one line, and an earlier program is not touched."""
    archive = make_archive()
    program = run_tool(tmp_path)
    shutil.rmtree(archive)
    capsys.readouterr()

    run_tool(tmp_path, "--force")

    said = capsys.readouterr().err
    assert said.startswith("redis-benchmark: cannot be added, the lab goes on without it: `apt-get update` failed")
    assert said.count("\n") == 1
    assert find_redis_benchmark() == str(program)


def test_one_that_the_lab_finds_is_enough(tmp_path, monkeypatch, capsys):
    """A program that the variable names is enough: nothing is made, looked up or said."""
    write_executable(tmp_path / "mine", "#!/bin/sh\n")
    monkeypatch.setenv("HEADWAY_REDIS_BENCHMARK", str(tmp_path / "mine"))

    run_tool(tmp_path)

    assert (capsys.readouterr().err, in_cache(tmp_path)) == ("", [])


def test_the_user_can_forbid_it(tmp_path, monkeypatch, capsys):
    """HEADWAY_PROVISION=no gives one line, and nothing is made."""
    monkeypatch.setenv("HEADWAY_PROVISION", "no")

    run_tool(tmp_path, "--force")

    assert capsys.readouterr().err == "redis-benchmark: not adding it (HEADWAY_PROVISION=no)\n"
    assert not (tmp_path / "cache/headway/redis-tools").exists()


def test_a_machine_without_apt_says_so(tmp_path, monkeypatch, capsys):
    """A machine that is not Debian-like gets a line that names the missing tool."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    run_tool(tmp_path)

    assert "this is no Debian-like machine (`apt-get` is not on PATH)" in capsys.readouterr().err


@needs_apt
def test_a_machine_without_an_archive_says_so(tmp_path, capsys):
    """An apt configuration without an archive of this release gets a line that names both."""
    run_tool(tmp_path)

    assert f"{tmp_path / 'apt'} names no archive of this machine's release (moon)" in capsys.readouterr().err


def test_the_releases_own_archives_are_found(tmp_path):
    """The archives are those of the codename, its updates and its security fixes, with main and universe only.

    Archives of other releases, and of sources, are left out.
    """
    folder = tmp_path / "apt"
    (folder / "sources.list.d").mkdir()
    (folder / "sources.list").write_text(
        "deb [signed-by=/k.gpg] https://a moon main contrib\n"
        "deb-src https://a moon main\ndeb https://b moon stable\ndeb https://a sun main\ndeb cdrom:[x]/ moon main\n"
    )
    (folder / "sources.list.d/moon.sources").write_text(
        "Types: deb\nURIs: https://c\nSuites: moon-updates moon-backports moon-security\nComponents: universe restricted\n"
    )

    assert find_release_archives(["moon"], folder) == [
        Archive("https://a", ("moon",), ("main",), "/k.gpg"),
        Archive("https://c", ("moon-updates", "moon-security"), ("universe",), ""),
    ]


def test_a_rolling_release_is_found_by_its_name(tmp_path):
    """The name `sid` is found for Debian, although /etc/os-release has no such codename."""
    (tmp_path / "apt/sources.list").write_text("deb https://a sid main\n")

    assert find_release_archives(["duke"], tmp_path / "apt") == [Archive("https://a", ("sid",), ("main",), "")]


def test_without_a_codename_and_an_archive_the_error_says_so(tmp_path):
    """The error is the same without /etc/os-release."""
    with pytest.raises(ProvisionError, match="without a codename"):
        find_release_archives([], tmp_path / "apt")


def test_library_packages_are_read_from_the_dependencies(tmp_path, monkeypatch):
    """The libraries are the first alternatives, each once, without the C library, which the machine has."""
    text = (
        "Pre-Depends: libc6 (>= 2.34), init-system-helpers\n"
        "Depends: adduser, libssl3t64 (>= 3.0.0) | libssl4, libstdc++6:any (>= 4.1),\n libhiredis1.1.0, libssl3t64\n"
    )
    monkeypatch.setattr(apt_program, "run", lambda *_arguments: text)

    names = apt_program.needed_libraries([tmp_path / "x.deb"], tmp_path / "log")

    assert names == ["libhiredis1.1.0", "libssl3t64", "libstdc++6"]
