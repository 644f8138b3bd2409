"""``python -m seglog.broker`` is ``seglogd``."""

from seglog.broker.daemon.main import main

main(prog_name="seglogd")
