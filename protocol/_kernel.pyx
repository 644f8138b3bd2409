# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Compiled kernels of the record format; the pure-Python twins are in ``records/_pure*.py``.

Bounds checks are off: all reads go through the functions of ``_kernel_varint.pxi``, which take the
end of the readable bytes.
"""
include "_kernel_varint.pxi"
include "_kernel_records.pxi"
include "_kernel_areas.pxi"
include "_kernel_partitioning.pxi"
include "_kernel_checksum.pxi"
include "_kernel_offset_map.pxi"
include "_kernel_compaction.pxi"
include "_kernel_filtering.pxi"
include "_kernel_batches.pxi"
include "_kernel_arrow_columns.pxi"
include "_kernel_arrow_records.pxi"
