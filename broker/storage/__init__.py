"""The segmented log on disk: files only, synchronous, told the time by its callers.

Every change to a file goes through ``files.FileSystem``. Objects of this package belong to one
thread at a time; ``FileSlice`` and pinned descriptors may be released from any thread.
"""
