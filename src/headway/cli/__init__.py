"""The command line: one file per subcommand. Only this package prints and chooses exit codes."""

from headway.cli.main import Command, main, parser

__all__ = ["Command", "main", "parser"]
