"""How many files and sockets the process may have open."""

import logging
import resource

logger = logging.getLogger(__name__)


def raise_descriptor_limit() -> None:
    """Raise the soft limit to the hard one, which this process may use anyway.

    Soft limits are low, 1024 in most places, for the sake of programs that use ``select``. A
    refusal is logged and harmless: the limit stays.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:
        # Some systems name no hard limit and still refuse more than one of the kernel's.
        logger.warning("event=descriptor-limit-kept soft=%d hard=%d error=%s", soft, hard, error)
    else:
        logger.info("event=descriptor-limit-raised from=%d to=%d", soft, hard)
