"""seglog: a log-storage broker, and clients for it.

The public names of ``seglog.clients`` are here as well (``seglog.Producer``), imported when they
are first used; ``seglog.__version__`` says which version this is. The daemon takes none of it.

This file is what makes it a regular package: Python prefers one to any folder called ``seglog`` in
the directory it is started in, such as a checkout, whose kernels nobody has compiled. Type checkers
read ``__init__.pyi`` instead.
"""


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "__version__":
        value = import_module("seglog.broker.version").VERSION
    else:
        clients = import_module("seglog.clients")
        if name not in clients.__all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(clients, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    from importlib import import_module

    return sorted({*globals(), "__version__", *import_module("seglog.clients").__all__})
