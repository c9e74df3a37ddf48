"""``python -m peermesh``: the command where its script is not on the path."""

from peermesh.cli import main

main()
