"""Run apt-get with private lists, status and archives, so that apt itself checks every signature and hash."""

import os
from dataclasses import dataclass
from pathlib import Path

from headway.provision.archive import ProvisionError, find_archive, keyring_of, source_options
from headway.provision.commands import Talk, run_logged

__all__ = ["PrivateApt"]


@dataclass
class PrivateApt:
    """apt-get with its own sources, lists, status and archives, but the machine's trust, proxies and credentials.

    The status file stays empty, so apt considers every dependency absent and fetches it, the C library included.
    """

    root: Path
    suite: str
    source_packages: bool
    is_updated: bool = False

    def configure(self) -> None:
        """Write sources.list and apt.conf again: this is cheap, and the machine's archive may have changed."""
        archive = find_archive()
        for folder in ("lists/partial", "cache/archives/partial", "state"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        (self.root / "status").touch()
        # One target only: otherwise apt also fetches DEP-11 metadata, and lists of files if apt-file is installed.
        kind, wanted = ("deb-src", "Sources") if self.source_packages else ("deb", "Packages")
        keyring = keyring_of(archive)
        options = source_options(archive, wanted, keyring)
        (self.root / "sources.list").write_text(f"{kind} [{options}] {archive.uri} {self.suite} main\n", "utf-8")
        (self.root / "apt.conf").write_text(self.configuration(), "utf-8")

    def configuration(self) -> str:
        """Return the text of apt.conf, which apt reads after the machine's own files, so that it overrides them."""
        settings = {
            "Dir::State": self.root / "state",
            "Dir::State::lists": self.root / "lists",
            "Dir::State::status": self.root / "status",
            "Dir::Cache": self.root / "cache",
            "Dir::Cache::archives": self.root / "cache/archives",
            "Dir::Etc::sourcelist": self.root / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            # The machine's pins and default release concern only its own releases.
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "APT::Default-Release": "",
            "APT::Install-Recommends": "false",
            "Acquire::Languages": "none",
            "Acquire::PDiffs": "false",
            "Acquire::Retries": "3",
        }
        if os.geteuid() == 0:
            # As root, apt would drop to a user that cannot enter root's home, and print a warning for each file.
            settings["APT::Sandbox::User"] = "root"
        lines = [f'{name} "{value}";' for name, value in settings.items()]
        # The machine's hooks after an update concern the system's cache, not this one.
        return "\n".join([*lines, "#clear APT::Update;"]) + "\n"

    def update(self, talk: Talk, log: Path) -> None:
        """Update the index, once per run; if the archive cannot be reached, an existing index is good enough."""
        if self.is_updated:
            return
        self.configure()
        try:
            with talk.step(f"apt index of {self.suite}"):
                self.call(log, "update", "-o", "APT::Update::Error-Mode=any")
        except ProvisionError:
            if not any((self.root / "lists").glob("*_" + ("Sources" if self.source_packages else "Packages") + "*")):
                raise
            talk.tell("  the index cannot be updated; going on with the one at hand")
        self.is_updated = True

    def call(self, log: Path, command: str, *arguments: str | Path, cwd: Path | None = None) -> str:
        """Run apt-get with the private state and return its output."""
        options = ["-q", "-y", "-c", str(self.root / "apt.conf")]
        return run_logged(["apt-get", command, *options, *arguments], log, cwd=cwd)
