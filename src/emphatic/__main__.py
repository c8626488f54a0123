"""`python -m emphatic` is the command `emphatic`."""

from emphatic_command import main

raise SystemExit(main())
