#!python
"""Start the command `headway` where no compiler could build native/launcher/headway.c; it cannot trace there."""

import sys

from headway.cli import main

sys.exit(main())
