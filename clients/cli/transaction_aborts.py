"""``seglog transactions abort``."""

from typing import TYPE_CHECKING

import click

from seglog.clients.cli.connections import open_admin
from seglog.clients.cli.parameters import json_option
from seglog.clients.cli.rendering import print_json, print_message
from seglog.clients.cli.settings import connection_options

if TYPE_CHECKING:
    from seglog.clients.blocking.admin import Admin
    from seglog.clients.models import OpenTransaction


@click.command()
@click.argument("transactional_ids", metavar="[TRANSACTIONAL_ID]...", nargs=-1)
@click.option("--topic", help="Instead: of a hanging one, the topic.")
@click.option("--partition", type=click.IntRange(min=0), help="Of a hanging one, the partition.")
@click.option(
    "--start-offset",
    type=click.IntRange(min=0),
    help="Of a hanging one, where it begins, as 'find-hanging' shows it.",
)
@click.option(
    "--force", is_flag=True, help="Also if a coordinator looks after it, and might still commit it."
)
@json_option
@connection_options
def abort(
    transactional_ids: tuple[str, ...],
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Abort open transactions and fence their producers, which have to be started again.

    Name a hanging transaction, which belongs to no transactional id any more, by --topic,
    --partition and --start-offset; the broker then writes an abort marker into that partition.
    """
    place = (topic, partition, start_offset)
    if bool(transactional_ids) == any(part is not None for part in place):
        raise click.UsageError(
            "name either transactional ids, or --topic, --partition and --start-offset"
        )
    with open_admin() as admin:
        if transactional_ids:
            admin.abort_transactions(transactional_ids)
            names = list(transactional_ids)
        else:
            if topic is None or partition is None or start_offset is None:
                raise click.UsageError("--topic, --partition and --start-offset go together")
            transaction = _find(admin, topic, partition, start_offset)
            _check(transaction, force=force)
            admin.abort_open_transaction(transaction)
            names = [f"{topic}-{partition} at offset {start_offset}"]
    for name in names:
        print_message(f"{name}: aborted")
    if as_json:
        print_json([{"name": name, "aborted": True} for name in names])


def _find(admin: "Admin", topic: str, partition: int, start_offset: int) -> "OpenTransaction":
    found = admin.open_transactions([(topic, partition)])
    for each in found:
        if each.start_offset == start_offset:
            return each
    offsets = ", ".join(str(each.start_offset) for each in found) or "none"
    raise click.ClickException(
        f"no transaction is open in {topic}-{partition} from offset {start_offset} on; "
        f"open ones begin at: {offsets}"
    )


def _check(transaction: "OpenTransaction", *, force: bool) -> None:
    if transaction.transactional_id is not None and not force:
        raise click.ClickException(
            f"it belongs to transactional id {transaction.transactional_id}, which ends it: "
            f"'seglog transactions abort {transaction.transactional_id}' aborts all of it; "
            "--force only the part in this partition"
        )
