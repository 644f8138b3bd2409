"""Log compaction: keep the last record of each key, without changing an offset.

``candidates`` picks the log, ``plan`` freezes the input of a pass, ``key_map_builder`` and
``cleaner`` are the two passes (in any thread, over sealed segments only), and the owner of the log
swaps their output in.
"""
