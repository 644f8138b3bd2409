from seglog.clients import *  # noqa: F403 - the same names, said once

__version__: str
