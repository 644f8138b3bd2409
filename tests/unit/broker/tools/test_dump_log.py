"""``seglogd dump-log``: what is in a file, in words that people and scripts know."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from seglog.broker.daemon.main import main
from seglog.protocol.records.control import ControlType, build_marker
from support.segment_builder import batch
from support.tool_folders import (
    data_folder,
    overwrite,
    partition_folder,
    segment_bases,
    snapshot_of,
)

# What an independent encoder wrote.
V1 = bytes.fromhex(
    "00000000000000000000003e00000000025e93538d0000000000000000018bcfe568000000018bcfe56800ffffffff"
    "ffffffffffffffffffff0000000118000000026b02760202680278"
)
ABORT = bytes(
    build_marker(
        ControlType.ABORT,
        producer_id=1001,
        producer_epoch=3,
        coordinator_epoch=7,
        timestamp_ms=1700000000000,
        base_offset=42,
    )
)
TOMBSTONE = bytes.fromhex(
    "00000000000000640000003c0000000402b06ca6c80040000000000000018bd50bc4000000018bcfe56800ffffffff"
    "ffffffffffffffffffff000000011400ffefb25200026b0100"
)
SNAPSHOT = bytes.fromhex(
    "0001d4af1d930000000100000000000003e9000300000009000000000000002a000000020000018bcfe56800000000"
    "07ffffffffffffffff"
)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["dump-log", *map(str, arguments)])


def lines_of(tmp_path: Path, name: str, content: bytes, *options: str) -> list[str]:
    path = tmp_path / name
    path.write_bytes(content)
    result = run(*options, path)
    assert result.exit_code == 0, result.output
    head, *lines = result.stdout.splitlines()
    assert head == f"Dumping {path}"
    return lines


def test_a_script_that_parses_kafkas_lines_finds_nothing(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, f"{0:020d}.log", V1, "--print-data-log")
    assert lines == [
        "Log starting offset: 0",
        (
            "baseOffset: 0 lastOffset: 0 count: 1 baseSequence: -1 lastSequence: -1 producerId: -1 "
            "producerEpoch: -1 partitionLeaderEpoch: 0 isTransactional: false isControl: false "
            "deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 1700000000000 size: 74 "
            "magic: 2 compresscodec: none crc: 1586713485 isvalid: true"
        ),
        (
            "| offset: 0 CreateTime: 1700000000000 keySize: 1 valueSize: 1 sequence: -1 "
            "headerKeys: [h] key: k payload: v"
        ),
    ]


def test_records_are_shown_unasked_or_with_too_much(tmp_path: Path) -> None:
    name = f"{0:020d}.log"
    assert len(lines_of(tmp_path, name, V1)) == 2
    (record,) = lines_of(tmp_path, name, V1, "--records", "--skip-record-metadata")[2:]
    assert record == "| key: k payload: v"


def test_control_records_and_tombstones_are_shown_as_data(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, f"{0:020d}.log", ABORT + TOMBSTONE, "--records")
    assert "isTransactional: true isControl: true" in lines[1]
    assert lines[2].endswith("endTxnMarker: ABORT coordinatorEpoch: 7")
    assert "deleteHorizonMs: 1700086400000" in lines[3]
    assert lines[4].endswith("valueSize: -1 sequence: -1 headerKeys: [] key: k payload: None")


def test_only_the_first_bytes_means_a_fault(tmp_path: Path) -> None:
    content = batch(0) + batch(1) + batch(2)
    size = len(batch(0))
    lines = lines_of(tmp_path, f"{0:020d}.log", content, "--max-bytes", str(size + 10))
    assert len(lines) == 2


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            f"{5:020d}.index",
            bytes.fromhex("0000000a000010680000001900002134") + bytes(80),
            ["offset: 15 position: 4200", "offset: 30 position: 8500"],
        ),
        (
            f"{5:020d}.timeindex",
            bytes.fromhex("0000018bcfe568000000000a0000018bcfe56ddc00000019") + bytes(24),
            [
                "timestamp: 1700000000000 offset: 15",
                "timestamp: 1700000001500 offset: 30",
            ],
        ),
        (
            f"{0:020d}.txnindex",
            bytes.fromhex("000000000000000003e9000000000000000a000000000000002a0000000000000008"),
            ["version: 0 producerId: 1001 firstOffset: 10 lastOffset: 42 lastStableOffset: 8"],
        ),
        (
            f"{43:020d}.snapshot",
            SNAPSHOT,
            [
                (
                    "producerId: 1001 producerEpoch: 3 coordinatorEpoch: 7 "
                    "currentTxnFirstOffset: None lastTimestamp: 1700000000000 "
                    "firstSequence: 7 lastSequence: 9 lastOffset: 42 offsetDelta: 2"
                )
            ],
        ),
        (f"{43:020d}.snapshot.deleted", SNAPSHOT, None),
        (
            "recovery-point-offset-checkpoint",
            b"0\n1\nflights 0 42\n",
            ["topic: flights partition: 0 offset: 42"],
        ),
        ("leader-epoch-checkpoint", b"0\n1\n3 10\n", ["leaderEpoch: 3 startOffset: 10"]),
        (
            "partition.metadata",
            b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw",
            ["topicId: AAECAwQFBgcICQoLDA0ODw"],
        ),
        (
            "meta.properties",
            b"version=1\nnode.id=3\ncluster.id=abc\n",
            ["nodeId: 3 clusterId: abc directoryId: None"],
        ),
        (".kafka_cleanshutdown", b'{"version":0,"brokerEpoch":7}', ["brokerEpoch: 7"]),
        (".kafka_cleanshutdown", b"not json", ["brokerEpoch: None"]),
    ],
)
def test_a_file_is_read_otherwise(
    tmp_path: Path, name: str, content: bytes, expected: list[str] | None
) -> None:
    lines = lines_of(tmp_path, name, content)
    assert expected is None or lines == expected


def test_every_file_of_a_folder_can_be_dumped_and_none_is_changed(tmp_path: Path) -> None:
    data = data_folder(tmp_path)
    files = [path for path in data.rglob("*") if path.is_file() and path.name != ".lock"]
    before = snapshot_of(data)
    for options in ((), ("--records",), ("--verify",), ("--json", "--records")):
        result = run(*options, *files)
        assert result.exit_code == 0, result.output
        assert result.stderr == ""
    assert snapshot_of(data) == before


def test_whole_files_are_called_damaged(tmp_path: Path) -> None:
    folder = partition_folder(tmp_path)
    files = sorted(path for path in folder.iterdir())
    result = run("--verify", *files)
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == len(files)
    assert all(": whole, " in line for line in result.stdout.splitlines())


def test_a_damage_has_no_file_and_position(tmp_path: Path) -> None:
    folder = partition_folder(tmp_path)
    log = folder / f"{segment_bases(folder)[0]:020d}.log"
    position = len(log.read_bytes()) - 1
    overwrite(log, position, b"\xff")
    for options in (("--verify",), ()):
        result = run(*options, log)
        assert result.exit_code == 1
        (fault,) = [line for line in result.stdout.splitlines() if line.startswith("fault: ")]
        assert fault.startswith(f"fault: {log} at position ")
    assert "NOT WHOLE" in run("--verify", log).stdout
    # Its index, given alone, is judged with the data; the damage there is named all the same.
    index = run("--verify", log.with_suffix(".index"))
    assert index.exit_code == 1
    assert f"fault: {log} at position " in index.stdout


def test_the_same_segment_is_checked_for_each_of_its_files(tmp_path: Path) -> None:
    folder = partition_folder(tmp_path)
    log = folder / f"{0:020d}.log"
    overwrite(log, 70, b"\xff")
    result = run("--verify", log, log.with_suffix(".index"), log.with_suffix(".timeindex"))
    assert result.stdout.count("fault: ") == 1


def test_relative_names_lead_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = partition_folder(tmp_path)
    monkeypatch.chdir(folder)
    overwrite(folder / f"{0:020d}.log", 70, b"\xff")
    result = run("--verify", f"{0:020d}.log")
    assert "NOT WHOLE" in result.stdout
    assert run("--files", f"{0:020d}.index,leader-epoch-checkpoint").exit_code == 0


def test_an_index_without_its_data_passes(tmp_path: Path) -> None:
    folder = partition_folder(tmp_path)
    (folder / f"{0:020d}.log").unlink()
    result = run("--verify", folder / f"{0:020d}.index")
    assert result.exit_code == 1
    assert "there is no data file beside it" in result.stdout


def test_a_damaged_small_file_ends_the_dump_of_others(tmp_path: Path) -> None:
    good = tmp_path / "leader-epoch-checkpoint"
    good.write_text("0\n1\n3 10\n")
    bad = tmp_path / "recovery-point-offset-checkpoint"
    bad.write_text("9\n")
    result = run(bad, good)
    assert result.exit_code == 1
    assert f"fault: {bad}: its version is 9, only 0 is known" in result.stdout
    assert "leaderEpoch: 3 startOffset: 10" in result.stdout


def test_a_file_that_is_none_of_ours_is_shown_anyhow(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    result = run(path)
    assert result.exit_code == 1
    assert "by its name it is none of a broker's files" in result.stdout
    assert run().exit_code == 2
    assert run("--files", "nothing").exit_code == 2


def test_a_line_of_json_cannot_be_parsed(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(V1 + b"x")
    result = run("--json", "--records", path)
    assert result.exit_code == 1
    kinds = [json.loads(line)["kind"] for line in result.stdout.splitlines()]
    assert kinds == ["log", "batch", "record", "finding"]
    record = json.loads(result.stdout.splitlines()[2])
    assert (record["key"], record["payload"], record["offset"]) == ("k", "v", 0)
