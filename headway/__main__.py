"""`python -m headway`: the same as the command `headway`."""

import sys

from headway.cli.main import main

sys.exit(main())
