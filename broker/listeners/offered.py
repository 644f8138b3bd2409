"""Which operations a broker offers, told from the request types that it has handlers for."""

import re
from collections.abc import Iterable
from typing import Final

from seglog.protocol.api import AlterConfigsRequest, ApiKey

_SUFFIX: Final = "Request"
_WORD_START: Final = re.compile(r"(?<!^)(?=[A-Z])")


def api_keys_of(request_types: Iterable[type]) -> frozenset[ApiKey]:
    """The keys of the operations that these requests belong to: their names say it.

    Raises:
        KeyError: a type whose name is no operation's.
    """
    keys = set()
    for request_type in request_types:
        if request_type is AlterConfigsRequest:
            # Kafka's two ways to change configurations are one request here.
            keys |= {ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS}
        else:
            name = request_type.__name__.removesuffix(_SUFFIX)
            keys.add(ApiKey[_WORD_START.sub("_", name).upper()])
    return frozenset(keys)
