"""`python -m emphatic` is the command `emphatic`."""

from .cli import main

raise SystemExit(main())
