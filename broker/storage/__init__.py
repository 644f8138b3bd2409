"""The segmented log on disk: files only, synchronous, told the time by its callers.

The rooms are floors: ``files`` below ``segment`` below ``log`` below ``directories``; ``cleaner``
stands on ``log``. Every change to a file goes through ``files.file_system``. Objects of these rooms
belong to one thread at a time; any thread may release a ``FileSlice`` or a pinned descriptor.
"""
