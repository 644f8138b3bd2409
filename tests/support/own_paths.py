"""Faults are matched by a piece of a path that the test chose, never by what pytest chose.

A fault that looked at the whole path would also hit folders that pytest names: the first run in an
empty temporary folder makes ``pytest-of-USER/pytest-0``, where ``t-0`` is a partition's folder, and
the folder of a test carries the test's name.
"""

_base_folder: list[str] = []


def set_base_folder(path: str) -> None:
    """Note pytest's own folder, below which each test has one."""
    _base_folder[:] = [path]


def is_part_of(piece: str, path: str) -> bool:
    """Whether ``path`` contains ``piece`` below the folder of the test.

    A piece that is itself a path inside pytest's folder is compared with the whole path, and so is
    every piece with a path that lies elsewhere.
    """
    [base] = _base_folder
    if piece.startswith(base) or not path.startswith(f"{base}/"):
        return piece in path
    _test_folder, slash, rest = path[len(base) + 1 :].partition("/")
    return piece in slash + rest
