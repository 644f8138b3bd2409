"""Log compaction: keep the last record of each key, without changing an offset.

``candidates`` picks the log, ``plan`` freezes what a pass may look at, ``key_map_builder`` and
``cleaner`` are the two passes (in any thread, over sealed segments only), and the owner of the log
swaps in what they wrote.
"""
