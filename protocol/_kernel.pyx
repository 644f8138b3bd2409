# cython: language_level=3
"""Compiled kernels of the record format; the pure-Python twins are in ``records/_pure.py``."""
include "_kernel_records.pxi"
