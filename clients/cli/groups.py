"""``seglog groups``: what people do with consumer groups, in the words of Kafka's tool."""

from typing import Final

from seglog.clients.cli.command_tree import Entry, LazyGroup

_PLACE: Final = "seglog.clients.cli."

groups = LazyGroup(
    name="groups",
    help="Look after consumer groups: list, describe, reset and delete.",
    entries={
        "list": Entry(_PLACE + "group_descriptions:list_groups", "List groups."),
        "describe": Entry(
            _PLACE + "group_descriptions:describe", "Show offsets, lag, members and states."
        ),
        "reset-offsets": Entry(
            _PLACE + "group_resets:reset_offsets", "Set offsets by a rule, or plan it."
        ),
        "delete": Entry(_PLACE + "group_deletions:delete", "Delete groups with their offsets."),
        "delete-offsets": Entry(
            _PLACE + "group_deletions:delete_offsets", "Forget the offsets of topics."
        ),
    },
)
