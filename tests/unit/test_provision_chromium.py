"""Adding a Chromium from an archive made for the test, with stubs in it, by the machine's own apt and without network."""

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
from provision import apt_program, chromium
from provision.find_chromium import PROGRAMS, find_chromium

# The program needs its library and its resources beside it, and "renders" only in an empty environment.
PROGRAM = f"""\
#!/bin/sh
{NEEDS_LIBRARY}
[ -e "$(dirname "$0")/icudtl.dat" ] || {{ echo "error: no icudtl.dat" >&2; exit 1; }}
[ -z "$HEADWAY_LEAK" ] && echo "<html><p>42</p><script></script></html>"
echo "fonts: $FONTCONFIG_PATH"
"""


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """Make this a machine of the release `moon` with fonts and without a Chromium."""
    monkeypatch.delenv("HEADWAY_CHROMIUM", raising=False)
    monkeypatch.setenv("HEADWAY_LEAK", "yes")
    set_up_machine(tmp_path, monkeypatch, PROGRAMS)
    write_executable(tmp_path / "fonts/a.ttf", "")
    monkeypatch.setattr(chromium, "FONTS", (tmp_path / "none", tmp_path / "fonts"))
    monkeypatch.setattr(chromium, "FONT_CONFIGURATION", tmp_path / "fonts/a.ttf")


@pytest.fixture
def make_archive(tmp_path, monkeypatch):
    """Return a function that makes an archive of a Chromium, its dependencies, and fonts."""

    def make(package: str = "chromium-headless-shell", program: str = PROGRAM) -> None:
        roots = tmp_path / "archive/roots"
        write_executable(roots / package / "usr/lib/chromium" / package, program)
        write_executable(roots / "chromium-common/usr/lib/chromium/icudtl.dat", "")
        write_executable(roots / "fonts-dejavu-core/usr/share/fonts/truetype/dejavu/a.ttf", "letters")
        write_executable(roots / "fontconfig-config/etc/fonts/fonts.conf", "which includes conf.d")
        write_executable(roots / "fontconfig-config/usr/share/fontconfig/conf.avail/60-latin.conf", "latin")
        link = roots / "fontconfig-config/etc/fonts/conf.d/60-latin.conf"
        link.parent.mkdir()
        link.symlink_to("/usr/share/fontconfig/conf.avail/60-latin.conf")
        write_archive(
            tmp_path,
            monkeypatch,
            [
                Package(package, "Depends: libc6 (>= 2.34), libfake1, chromium-common\n"),
                add_library(tmp_path / "archive", "libfake.so.1"),
                *map(Package, ("chromium-common", "fonts-dejavu-core", "fontconfig-config")),
            ],
        )

    return make


def run_tool(tmp_path: Path, *arguments: str) -> Path:
    """Run the tool, and return the path at which it must put the program."""
    assert chromium.main(list(arguments), etc_apt=tmp_path / "apt") == 0
    return tmp_path / "cache/headway/chromium/bin/chromium"


@pytest.mark.slow
@needs_apt
@pytest.mark.parametrize("package", ["chromium-headless-shell", "chromium"])
def test_it_is_made_with_what_the_machine_lacks(tmp_path, make_archive, capsys, package):
    """The program is found beside its resources, from either package, and a second run does nothing."""
    make_archive(package)

    program = run_tool(tmp_path)

    said = capsys.readouterr().err
    assert said == f"chromium: added {program} from {package} 1:7.0-1 with 1 of its libraries\n"
    assert find_chromium() == str(program)
    assert in_cache(tmp_path) == ["chromium", "provision"]
    mark = program.parents[1] / "mark"
    mark.touch()
    run_tool(tmp_path)
    assert mark.exists(), "a second run made the folder anew"
    assert capsys.readouterr().err == ""


@pytest.mark.slow
@needs_apt
def test_a_machine_without_fonts_gets_some(tmp_path, make_archive, monkeypatch, capsys):
    """The wrapper names its own configuration, which has the rules for families and the folder of the fonts."""
    make_archive()
    monkeypatch.setattr(chromium, "FONTS", (tmp_path / "none",))

    program = run_tool(tmp_path)

    assert capsys.readouterr().err.endswith("with 1 of its libraries and fonts-dejavu-core\n")
    done = subprocess.run([program], env={}, capture_output=True, text=True, check=True)
    fonts = Path(done.stdout.rsplit("fonts: ", 1)[1].strip())
    assert fonts == program.parents[1] / "fonts"
    assert (fonts / "truetype/dejavu/a.ttf").read_text() == "letters"
    assert (fonts / "fonts.conf").read_text() == "which includes conf.d"
    assert (fonts / "conf.d/60-latin.conf").read_text() == "latin"
    assert '<dir prefix="relative">../truetype</dir>' in (fonts / "conf.d/00-headway.conf").read_text()


@pytest.mark.slow
@needs_apt
@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("#!/bin/sh\necho odd error: >&2\nexit 3\n", "failed (exit code 3): odd error:"),
        ("#!/bin/sh\necho '<p>no letters</p>'\n", "`chromium` renders 'no letters' where 42 is expected"),
        ("#!/bin/sh\necho the script has 42\n", "`chromium` renders no page where 42 is expected"),
    ],
)
def test_one_that_does_not_render_never_appears(tmp_path, make_archive, capsys, program, reason):
    """A program that does not render is not installed, and one line says why."""
    make_archive(program=program)

    run_tool(tmp_path)

    said = capsys.readouterr().err
    assert said.startswith("chromium: cannot be added, the browser tests are left out: ")
    assert reason in said
    assert said.count("\n") == 1
    assert (find_chromium(), in_cache(tmp_path)) == (None, ["provision"])


@pytest.mark.slow
@needs_apt
def test_a_release_without_either_package_says_so(tmp_path, make_archive, capsys):
    """The reason is apt's message, and names the package that is wanted most."""
    make_archive("netscape")

    run_tool(tmp_path)

    assert "Unable to locate package chromium-headless-shell" in capsys.readouterr().err


def test_the_user_can_forbid_it(tmp_path, monkeypatch, capsys):
    """HEADWAY_PROVISION=no gives one line, and nothing is made."""
    monkeypatch.setenv("HEADWAY_PROVISION", "no")

    run_tool(tmp_path, "--force")

    assert capsys.readouterr().err == "chromium: not adding it (HEADWAY_PROVISION=no)\n"
    assert not (tmp_path / "cache/headway/chromium").exists()


def test_one_that_is_found_is_enough(tmp_path, monkeypatch, capsys):
    """A Chromium that the variable names is enough: nothing is made, looked up or said."""
    write_executable(tmp_path / "mine", "#!/bin/sh\n")
    monkeypatch.setenv("HEADWAY_CHROMIUM", str(tmp_path / "mine"))

    run_tool(tmp_path)

    assert (capsys.readouterr().err, in_cache(tmp_path)) == ("", [])


@pytest.mark.parametrize(
    ("program", "is_taken"),
    [
        ("echo Chromium 156.0.8078.79", True),
        ("echo get it from a shop 1.0; exit 1", False),
        ("echo hello", False),
    ],
)
def test_one_on_path_is_taken_where_it_answers(tmp_path, monkeypatch, program, is_taken):
    """A program that only says where to get a Chromium is skipped in favour of ours."""
    theirs, ours = tmp_path / "chromium-browser", tmp_path / "cache/headway/chromium/bin/chromium"
    write_executable(theirs, f"#!/bin/sh\n{program}\n")
    write_executable(ours, "")
    monkeypatch.setattr("shutil.which", lambda name: str(theirs) if name == theirs.name else None)

    assert find_chromium() == str(theirs if is_taken else ours)


def test_libraries_that_are_opened_by_name_come_with_their_opener(tmp_path, monkeypatch):
    """Libraries that libnss3 opens by name come with it, and with the libraries that ldd says they lack."""
    for name in ("libnss3.so", "libsoftokn3.so", "libsqlite3.so.0"):
        write_executable(tmp_path / "root/usr/lib" / name, "")
    (tmp_path / "home").mkdir()
    needs = {"chromium": ["libnss3.so"], "libnss3.so": [], "libsoftokn3.so": ["libsqlite3.so.0"], "libsqlite3.so.0": []}

    def ldd(command, log):
        have = {path.name for path in (tmp_path / "home/lib").iterdir()}
        lacking = {name for file in command[3:] for name in needs[Path(file).name]} - have
        return "".join(f"\t{name} => not found\n" for name in lacking)

    monkeypatch.setattr(apt_program, "run", ldd)

    taken = apt_program.add_missing_libraries(
        None, "chromium", [], tmp_path, tmp_path / "log", loaded_later=chromium.LOADED_LATER
    )

    assert taken == ["libnss3.so", "libsoftokn3.so", "libsqlite3.so.0"]
