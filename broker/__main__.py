"""``python -m seglog.broker`` is ``seglogd``."""

from seglog.broker.main import main

main(prog_name="seglogd")
