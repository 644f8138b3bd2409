"""``seglogd verify``: a folder that is whole, and one damage after the other."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from seglog.broker.daemon.main import main
from seglog.broker.storage.directories.catalog_file import (
    CATALOG_COPY,
    CATALOG_FILE,
    CatalogState,
    CatalogTopic,
    encode_catalog,
)
from seglog.broker.storage.directories.directory_lock import DirectoryLock
from support.tool_folders import (
    TOPIC_ID,
    data_folder,
    overwrite,
    partition_folder,
    segment_bases,
    snapshot_of,
)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["verify", *map(str, arguments)])


def first_log(data: Path) -> Path:
    return data / "flights-0" / f"{segment_bases(data / 'flights-0')[0]:020d}.log"


def last_log(data: Path) -> Path:
    return data / "flights-0" / f"{segment_bases(data / 'flights-0')[-1]:020d}.log"


def test_a_whole_folder_has_faults_or_is_changed(tmp_path: Path) -> None:
    data = data_folder(tmp_path)
    before = snapshot_of(data)
    result = run(data)
    assert result.exit_code == 0, result.output
    assert "the last broker stopped in order" in result.stdout
    assert "flights-0: " in result.stdout
    assert "everything is whole, 0 notes" in result.stdout
    assert snapshot_of(data) == before


def test_a_partition_alone_is_not_checked(tmp_path: Path) -> None:
    folder = partition_folder(tmp_path)
    assert run(folder).exit_code == 0
    overwrite(folder / f"{0:020d}.log", 70, b"\xff")
    result = run(folder)
    assert result.exit_code == 1
    assert "at position 0: the checksum is" in result.stdout


def catalog_with(topic_id: bytes, partitions: int = 1) -> bytes:
    topic = CatalogTopic("flights", topic_id, partitions, {})
    return encode_catalog(CatalogState(generation=1, topics={"flights": topic}))


def _damage_catalog(data: Path) -> None:
    (data / CATALOG_FILE).write_bytes(catalog_with(TOPIC_ID))
    (data / CATALOG_COPY).write_bytes(catalog_with(TOPIC_ID)[:-3] + b"xxx")


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "checksum": (lambda data: overwrite(first_log(data), 70, b"\xff"), "the checksum is"),
    "torn tail after a clean stop": (
        lambda data: last_log(data).write_bytes(last_log(data).read_bytes()[:-7]),
        "is cut off after",
    ),
    "data file lost": (lambda data: first_log(data).unlink(), "records from offset 0 on are"),
    "index lost": (
        lambda data: first_log(data).with_suffix(".index").unlink(),
        "there is no such file",
    ),
    "checkpoint beyond the end": (
        lambda data: (data / "recovery-point-offset-checkpoint").write_text(
            "0\n1\nflights 0 99999\n"
        ),
        "it says 99999 of flights-0",
    ),
    "checkpoint unreadable": (
        lambda data: (data / "replication-offset-checkpoint").write_text("0\n2\nflights 0 1\n"),
        "2 entries are announced, 1 are there",
    ),
    "epochs descend": (
        lambda data: (data / "flights-0" / "leader-epoch-checkpoint").write_text(
            "0\n2\n5 10\n4 20\n"
        ),
        "does not ascend",
    ),
    "epoch beyond the end": (
        lambda data: (data / "flights-0" / "leader-epoch-checkpoint").write_text("0\n1\n1 9999\n"),
        "the last epoch starts at 9999",
    ),
    "topic id": (
        lambda data: (data / "flights-0" / "partition.metadata").write_text("version: 0\n"),
        "is no topic id",
    ),
    "other topic id in the catalog": (
        lambda data: (data / CATALOG_FILE).write_bytes(catalog_with(bytes([9] * 16))),
        "in the catalog",
    ),
    "catalog": (_damage_catalog, "its checksum is"),
    "identity": (lambda data: (data / "meta.properties").write_text("version=1\n"), "is missing"),
    "foreign folder": (lambda data: (data / "photos").mkdir(), "is not the folder of a partition"),
    "snapshot": (
        lambda data: next((data / "flights-0").glob("*.snapshot")).write_bytes(b"\0\1nonsense"),
        "checksum",
    ),
    "transaction index": (
        lambda data: overwrite(next((data / "flights-0").glob("*.txnindex")), 0, b"\0\7"),
        "version 7",
    ),
    "segments overlap": (
        lambda data: last_log(data).rename(last_log(data).with_name(f"{5:020d}.log")),
        "but the next segment begins at",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damage_is_not_found(tmp_path: Path, name: str) -> None:
    data = data_folder(tmp_path)
    damage, words = DAMAGES[name]
    damage(data)
    before = snapshot_of(data)
    result = run(data)
    assert result.exit_code == 1, result.output
    assert words in result.stdout
    assert str(data) in result.stdout.split("fault: ", 1)[1]
    assert snapshot_of(data) == before


ODDITIES: dict[str, tuple[Callable[[Path], object], str]] = {
    "deleted files": (
        lambda data: (data / "flights-0" / f"{0:020d}.index.deleted").touch(),
        "files that end in .deleted (1) wait for their deletion",
    ),
    "deleted folder": (
        lambda data: (data / f"old-0.{'a' * 32}-delete").mkdir(),
        "waits for its deletion",
    ),
    "half a compaction": (
        lambda data: (data / "flights-0" / f"{0:020d}.log.cleaned").touch(),
        "files that end in .cleaned (1)",
    ),
    "half a write": (
        lambda data: (data / "flights-0" / "leader-epoch-checkpoint.tmp").touch(),
        "files that end in .tmp (1)",
    ),
    "unknown file": (
        lambda data: (data / "flights-0" / "notes.txt").touch(),
        "none of a broker's files",
    ),
    "partition that the catalog does not know": (
        lambda data: (data / CATALOG_FILE).write_bytes(catalog_with(TOPIC_ID, partitions=0)),
        "the catalog does not know this partition",
    ),
    "checkpoint of another partition": (
        lambda data: (data / "cleaner-offset-checkpoint").write_text("0\n1\nother 3 5\n"),
        "there is no folder for other-3",
    ),
}


@pytest.mark.parametrize("name", ODDITIES)
def test_what_is_only_odd_is_a_fault_or_passes_in_silence(tmp_path: Path, name: str) -> None:
    data = data_folder(tmp_path)
    damage, words = ODDITIES[name]
    damage(data)
    result = run(data)
    assert result.exit_code == 0, result.output
    assert words in result.stdout
    assert "note: " in result.stdout


def test_what_the_next_start_mends_is_a_fault(tmp_path: Path) -> None:
    data = data_folder(tmp_path, clean=False)
    last_log(data).write_bytes(last_log(data).read_bytes()[:-7])
    next((data / "flights-0").glob("*.snapshot")).write_bytes(b"\0\1nonsense")
    result = run(data)
    assert result.exit_code == 0, result.output
    assert "did not stop in order" in result.stdout
    assert "is cut off after" in result.stdout


def test_what_was_on_disk_for_sure_is_forgiven_after_a_crash(tmp_path: Path) -> None:
    """Below the recovery point the next start looks at nothing."""
    data = data_folder(tmp_path, clean=False)
    second = segment_bases(data / "flights-0")[1]
    (data / "recovery-point-offset-checkpoint").write_text(f"0\n1\nflights 0 {second}\n")
    first_log(data).write_bytes(first_log(data).read_bytes()[:-7])
    result = run(data)
    assert result.exit_code == 1
    assert "is cut off after" in result.stdout


def test_a_running_broker_is_accused_of_what_it_is_writing(tmp_path: Path) -> None:
    data = data_folder(tmp_path)
    (data / ".kafka_cleanshutdown").unlink()
    last_log(data).write_bytes(last_log(data).read_bytes()[:-7])
    lock = DirectoryLock(str(data))
    lock.acquire()
    try:
        result = run(data)
        alone = run(data / "flights-0")
    finally:
        lock.release()
    for each in (result, alone):
        assert each.exit_code == 0, each.output
        assert "a broker is running on it (process " in each.stdout


def test_a_script_has_nothing_to_read(tmp_path: Path) -> None:
    data = data_folder(tmp_path)
    overwrite(first_log(data), 70, b"\xff")
    result = run(data, "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["is_clean"] is True
    assert document["is_running"] is False
    assert document["is_whole"] is False
    (partition,) = document["partitions"]
    assert partition["path"] == str(data / "flights-0")
    assert {"severity": "fault", "path": str(first_log(data)), "position": 0}.items() <= (
        document["findings"][0].items()
    )


def test_a_folder_that_is_not_there_ends_in_a_traceback(tmp_path: Path) -> None:
    result = run(tmp_path / "nothing")
    assert result.exit_code == 2
    assert "does not exist" in result.stderr


def test_a_reader_that_goes_away_is_no_fault_of_the_files(tmp_path: Path) -> None:
    """U52: ``seglogd verify DIR | head`` ended with 1, as for a damaged file."""
    process = subprocess.Popen(
        [sys.executable, "-m", "seglog.broker", "verify", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process:
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_ctrl_c_is_no_fault_of_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """U52: it ended with 1; 130 says what has happened."""

    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("seglog.broker.tools.verify._check", interrupted)
    assert CliRunner().invoke(main, ["verify", str(tmp_path)]).exit_code == 130
