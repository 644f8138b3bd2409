"""``seglog bench``: how fast a broker takes and gives records, in the words of Kafka's tools."""

from seglog.clients.cli.command_tree import Entry, LazyGroup

bench = LazyGroup(
    name="bench",
    help="Measure how fast the broker takes and gives records.",
    entries={
        "produce": Entry(
            "seglog.clients.cli.bench_produce:bench_produce", "Send records of one size."
        ),
        "fetch": Entry("seglog.clients.cli.bench_fetch:bench_fetch", "Read records and count."),
    },
)
