#!python
"""The command `headway` where there was no compiler for native/launcher/headway.c: then there is nothing to trace with either."""

import sys

from headway.cli import main

sys.exit(main())
