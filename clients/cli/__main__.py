"""``python -m seglog.clients.cli`` is ``seglog``."""

from seglog.clients.cli.main import main

main(prog_name="seglog")
