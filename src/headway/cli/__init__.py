"""The command line: one file per subcommand, and the only place that prints and chooses exit codes."""

from headway.cli.main import Command, main, parser

__all__ = ["Command", "main", "parser"]
