"""`python -m headway`."""

import sys

from headway.cli import main

__all__: list[str] = []

sys.exit(main())
