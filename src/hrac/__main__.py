"""`python -m hrac` is the `hrac` program."""

from hrac.cli import main

main()
