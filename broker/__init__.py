"""The daemon: segmented logs on disk (``storage``) and the server above them."""
