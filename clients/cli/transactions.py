"""``seglog transactions``: which are open, which hang, and the end of those by hand."""

from typing import Final

from seglog.clients.cli.command_tree import Entry, LazyGroup

_PLACE: Final = "seglog.clients.cli."

transactions = LazyGroup(
    name="transactions",
    help="Look after transactions: list, describe, find those that hang, abort.",
    entries={
        "list": Entry(_PLACE + "transaction_descriptions:list_transactions", "List them."),
        "describe": Entry(
            _PLACE + "transaction_descriptions:describe", "Show owners, ages and partitions."
        ),
        "find-hanging": Entry(
            _PLACE + "transaction_descriptions:find_hanging",
            "Find open ones without a coordinator to end them.",
        ),
        "abort": Entry(
            _PLACE + "transaction_aborts:abort", "Abort by transactional id, or by hand."
        ),
    },
)
