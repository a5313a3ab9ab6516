"""Add a headless Chromium to a Debian-like machine that lacks one, in Headway's cache: for the browser tests.

The script does nothing if `find_chromium` finds one: HEADWAY_CHROMIUM, one on PATH, or one that was added earlier and
still runs. With HEADWAY_PROVISION=no the script adds nothing and says so in a line. Nothing is installed system-wide.
`apt_program` describes the method and its guarantees. The program counts as running if it renders a page: a script in
the page must run, and letters must have their own widths.

Rejected: Playwright's own download (a host that not every machine reaches, and no libraries with it).
"""

import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from headway.provision.archive import ProvisionError
from headway.provision.commands import find_one
from provision.apt_program import (
    AptProgram,
    ReleaseApt,
    add_missing_libraries,
    name_of,
    run,
    run_script,
    version_of,
    write_wrapper,
)
from provision.find_chromium import FOLDER, NAME, find_chromium

# The second package has a user interface and so needs more libraries; older releases have only this one.
PACKAGES = ("chromium-headless-shell", "chromium")
# The files that Chromium loads from its own folder: the ICU data, V8's snapshot, resources.
COMMON_PACKAGE = "chromium-common"
# NSS opens its own parts by name, in the folder that it is loaded from.
LOADED_LATER = {"libnss3.so": ("libsoftokn3.so", "libfreebl3.so", "libfreeblpriv3.so", "libnssckbi.so")}
# The downloads have about 120 MB in all, with the index.
FETCH_TIMEOUT_S = 900
# Rendering takes a second; a busy machine may take much longer.
RENDER_TIMEOUT_S = 120
# Without fonts, all letters are boxes of one width.
PAGE = (
    "data:text/html,<p>no script ran</p><script>"
    "const width = text => Object.assign(document.createElement('canvas').getContext('2d'), {font: '20px sans-serif'})"
    ".measureText(text).width;"
    "document.querySelector('p').textContent = width('i') < width('W') ? 6*7 : 'no letters';"
    "</script>"
)
RENDERED = re.compile(r"<p>(.*?)</p>")

FONTS = (Path("/usr/share/fonts"), Path("/usr/local/share/fonts"))
FONT_CONFIGURATION = Path("/etc/fonts/fonts.conf")
FONT_PACKAGES = ("fonts-dejavu-core", "fontconfig-config")
FONT_FOLDER = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig><dir prefix="relative">../truetype</dir></fontconfig>
"""


def check_renders(program: Path, log: Path) -> None:
    """Let the program render a page in an empty environment.

    Raises:
        ProvisionError: The program or the page's script does not run, or there are no fonts.
    """
    # The sandbox refuses root and needs user namespaces; /dev/shm is small in containers.
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"]
    with tempfile.TemporaryDirectory() as scratch:
        environment = ["env", "-i", f"HOME={scratch}", f"TMPDIR={scratch}"]
        output = run([*environment, program, *options, PAGE], log, timeout_s=RENDER_TIMEOUT_S)
    paragraph = RENDERED.search(output)
    if paragraph is None or paragraph[1] != "42":
        seen = repr(paragraph[1]) if paragraph else "no page"
        raise ProvisionError(f"`{program.name}` renders {seen} where 42 is expected; see {log}")


def has_fonts() -> bool:
    """Return whether programs of this machine find fonts by themselves."""
    return FONT_CONFIGURATION.exists() and any(path.is_file() for folder in FONTS for path in folder.rglob("*"))


def add_fonts(apt: ReleaseApt, work: Path) -> None:
    """Put fonts into `work`/home/fonts, with the configuration that finds them and maps families to them."""
    apt.unpack(apt.download(FONT_PACKAGES, work / "archives-fonts"), work / "root")
    fonts, root = work / "home/fonts", work / "root"
    (fonts / "conf.d").mkdir(parents=True)
    shutil.move(root / "usr/share/fonts/truetype", fonts / "truetype")
    shutil.copy(root / "etc/fonts/fonts.conf", fonts)
    for link in (root / "etc/fonts/conf.d").glob("*.conf"):
        # The link leads to the system's /usr, or to /etc/fonts/conf.avail.
        file = next(path for path in root.rglob(link.name) if not path.is_symlink())
        shutil.copy(file, fonts / "conf.d" / link.name)
    (fonts / "conf.d/00-headway.conf").write_text(FONT_FOLDER, "utf-8")


def fill(apt: ReleaseApt, work: Path, log: Path) -> str:
    """Make `work`/home with bin/chromium in it; return the packages that it was made of.

    Raises:
        ProvisionError: A step failed.
    """
    package = apt.first_known(PACKAGES)
    packages = apt.download([package, COMMON_PACKAGE], work / "archives")
    # The message tells the version of the first package.
    packages.sort(key=lambda file: name_of(file) != package)
    apt.unpack(packages, work / "root")
    # The program has the name of its package, and stays in the folder of its resources, where it looks for them.
    shutil.move(find_one(work / "root", f"usr/lib/chromium*/{package}").parent, work / "home/libexec")
    libraries = add_missing_libraries(apt, package, packages, work, log, loaded_later=LOADED_LATER)
    added, variables = [f"{len(libraries)} of its libraries"] if libraries else [], {}
    if not has_fonts():
        add_fonts(apt, work)
        added.append(FONT_PACKAGES[0])
        variables["FONTCONFIG_PATH"] = "$home/fonts"
    write_wrapper(work / "home", NAME, package, variables)
    return f"{package} {version_of(packages[0])}" + (f" with {' and '.join(added)}" if added else "")


CHROMIUM = AptProgram(
    name=NAME,
    folder=FOLDER,
    without="the browser tests are left out",
    find=find_chromium,
    check_runs=check_renders,
    fill=fill,
    fetch_timeout_s=FETCH_TIMEOUT_S,
)


def main(arguments: Sequence[str] | None = None, *, etc_apt: Path = Path("/etc/apt")) -> int:
    """Carry out the command line; return 0 even if the program cannot be added."""
    return run_script(CHROMIUM, __doc__ or "", arguments, etc_apt)


if __name__ == "__main__":
    sys.exit(main())
