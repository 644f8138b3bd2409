"""Switches the check of owners on (``broker/storage/ownership.py``), here and in daemons of tests.

It is looked at when that module is imported, so this one is the first of ``conftest``.
"""

import os

os.environ["CHECK_LOG_OWNERS"] = "1"
