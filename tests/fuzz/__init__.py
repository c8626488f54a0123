"""A fuzzer of every command and of every format that it reads: `python -m tests.fuzz`."""
