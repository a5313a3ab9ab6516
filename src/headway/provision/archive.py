"""Find the Debian archive that this machine already uses, from its own apt configuration."""

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from headway.errors import InterpreterError

__all__ = [
    "UV_HINT",
    "Archive",
    "ProvisionError",
    "find_archive",
    "find_release_archives",
    "keyring_of",
    "read_archives",
    "source_options",
]

# Rolling names, and releases since the oldest that is still in use. The machine decides which host serves them.
DEBIAN_SUITES = frozenset(
    ["sid", "unstable", "testing", "stable", "oldstable", "buster", "bullseye", "bookworm", "trixie", "forky", "duke"]
)
UV_HINT = "on other systems `uv python install 3.13t 3.14 3.15` provides the same interpreters"


class ProvisionError(InterpreterError):
    """An interpreter or a program that is not available; `str()` gives the reason in one line.

    Attributes:
        tail: The last lines of the command that failed.
    """

    def __init__(self, message: str, *, hint: str = "", tail: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.tail = tail


@dataclass(frozen=True)
class Archive:
    """A Debian archive, as the machine's own apt configuration names it."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str  # path of a keyring, or "" for apt's own default

    def is_debian_main(self) -> bool:
        """Return whether this may be the main archive: Debian's release names, component main, no other project's key.

        The security archive has its own suites (`-security`), as have most archives that are not Debian's.
        """
        names = {re.sub(r"-(updates|backports|proposed-updates)$", "", suite) for suite in self.suites}
        is_foreign = self.signed_by != "" and "debian" not in Path(self.signed_by).name
        return (
            "main" in self.components
            and bool(names & DEBIAN_SUITES)
            and not is_foreign
            and not self.uri.startswith("cdrom:")
        )

    def is_snapshot(self) -> bool:
        """Return whether this is the archive of one past day, as snapshot services provide it."""
        return re.search(r"/\d{8}T\d{6}Z(/|$)", self.uri) is not None

    def likeness(self) -> tuple[bool, bool]:
        """Return a sort key: how likely this is Debian's; other projects, too, call suites `stable` and `bookworm`."""
        return "debian-archive" in self.signed_by, re.search(r"/debian/?(\d{8}T\d{6}Z/?)?$", self.uri) is not None


def parse_one_line_list(text: str) -> Iterator[Archive]:
    """Yield the `deb` entries of a sources.list in the one-line format."""
    entry = re.compile(r"\s*deb\s+(?:\[(?P<options>[^\]]*)\]\s*)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<components>[^#]+)")
    for match in filter(None, map(entry.match, text.splitlines())):
        signed_by = re.search(r"signed-by=(\S+)", match["options"] or "", re.IGNORECASE)
        keyring = signed_by[1] if signed_by else ""
        yield Archive(match["uri"], (match["suite"],), tuple(match["components"].split()), keyring)


def parse_deb822_list(text: str) -> Iterator[Archive]:
    """Yield the enabled `deb` entries of a .sources file (paragraphs of `Field: value` with indented continuations)."""
    uncommented = re.sub(r"^#.*\n?", "", text, flags=re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n", uncommented):
        pairs = re.findall(r"^([A-Za-z-]+):[ \t]*((?:.*)(?:\n[ \t]+.*)*)", paragraph, re.MULTILINE)
        fields = {name.lower(): value.strip() for name, value in pairs}
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() in {"no", "false", "0"}:
            continue
        # Signed-By may hold a whole key instead of a path; the default keyring then takes its place.
        signed_by = fields.get("signed-by", "")
        keyring = signed_by.split()[0] if signed_by.startswith("/") else ""
        for uri in fields.get("uris", "").split():
            yield Archive(
                uri, tuple(fields.get("suites", "").split()), tuple(fields.get("components", "").split()), keyring
            )


def read_archives(etc_apt: Path) -> Iterator[Archive]:
    """Yield every archive of binary packages that the apt configuration names, in apt's order."""
    for file in [etc_apt / "sources.list", *sorted((etc_apt / "sources.list.d").glob("*"))]:
        parse = {".list": parse_one_line_list, ".sources": parse_deb822_list}.get(file.suffix)
        if parse is not None and file.is_file():
            yield from parse(file.read_text("utf-8", errors="replace"))


def find_archive(etc_apt: Path = Path("/etc/apt")) -> Archive:
    """Return the Debian main archive that this machine already uses.

    Raises:
        ProvisionError: The apt configuration names none, as on Ubuntu.
    """
    candidates = list(filter(Archive.is_debian_main, read_archives(etc_apt)))
    if not candidates:
        reason = f"{etc_apt} names no Debian main archive, so this is not a Debian machine"
        raise ProvisionError(reason, hint=UV_HINT)
    return max(candidates, key=Archive.likeness)


def find_release_archives(codenames: Collection[str], etc_apt: Path = Path("/etc/apt")) -> list[Archive]:
    """Return the archives of the machine's own release, with updates and security fixes: Debian's, Ubuntu's, and so on.

    Of each archive, only the suites and the components with the distribution's free packages are returned. If the
    configuration names `stable` or `sid` and not the codename, the result is the Debian main archive that it names.

    Args:
        codenames: The names of the release in /etc/os-release.
        etc_apt: The apt configuration.

    Raises:
        ProvisionError: The configuration names no such archive.
    """
    wanted = {codename + end for codename in codenames for end in ("", "-updates", "-security")}
    found: list[Archive] = []
    for archive in read_archives(etc_apt):
        suites = tuple(suite for suite in archive.suites if suite in wanted)
        components = tuple(name for name in archive.components if name in {"main", "universe"})
        if suites and components and not archive.uri.startswith("cdrom:"):
            found.append(replace(archive, suites=suites, components=components))
    if found:
        return found
    try:
        return [find_archive(etc_apt)]
    except ProvisionError as error:
        release = "/".join(sorted(codenames)) or "without a codename"
        raise ProvisionError(f"{etc_apt} names no archive of this machine's release ({release})") from error


def source_options(archive: Archive, wanted: str, keyring: str) -> str:
    """Return the options of an entry in a sources.list that fetches only `wanted`: "Packages" or "Sources".

    The Release file of a snapshot has expired by design; its signatures are still checked. From other archives, apt
    refuses an expired index, because an attacker between the machine and the archive could hold back security fixes.
    """
    options = [f"target={wanted}"]
    if keyring:
        options.append(f"signed-by={keyring}")
    if archive.is_snapshot():
        options.append("check-valid-until=no")
    return " ".join(options)


def keyring_of(archive: Archive) -> str:
    """Return the keyring to verify `archive` with, or "" to leave the choice to apt."""
    standard = [f"/usr/share/keyrings/debian-archive-keyring.{suffix}" for suffix in ("pgp", "gpg")]
    return next((path for path in [archive.signed_by, *standard] if path and os.access(path, os.R_OK)), "")
