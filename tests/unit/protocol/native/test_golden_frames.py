"""The bytes of the dialect are pinned: a change to them is a decision, not an accident.

To write the files anew after such a decision: ``SEGLOG_UPDATE_GOLDEN=1 pytest <this file>``.
"""

import dataclasses
import os
import re
from pathlib import Path
from typing import Any

import pytest

from seglog.protocol.api import ApiKey
from seglog.protocol.native import NativeClient, NativeServer
from seglog.protocol.native.operations import ALL_OPERATIONS
from support.native_pair import decode, greeted_pair, joined, send_request, send_response
from support.native_samples import hello_bytes, samples

ROOT = Path(__file__).parents[4]
GOLDEN = ROOT / "tests" / "golden" / "native"
SAMPLES = samples()


def check_golden(name: str, frame: bytes) -> None:
    """Compare with the stored bytes, or store them when asked to."""
    path = GOLDEN / f"{name}.hex"
    if os.environ.get("SEGLOG_UPDATE_GOLDEN"):
        path.write_text("\n".join(re.findall(".{1,64}", frame.hex())) + "\n")
    assert frame == bytes.fromhex(path.read_text()), name


def frame_name(key: ApiKey) -> str:
    return key.name.lower()


@pytest.mark.parametrize("key", SAMPLES, ids=frame_name)
def test_request_bytes_change_unnoticed(key: ApiKey) -> None:
    """Every request, all its fields filled, has the bytes of its golden file and reads back."""
    client, server = greeted_pair()
    request, _ = SAMPLES[key]
    _, parts = client.encode_request(request)
    check_golden(f"{frame_name(key)}_request", joined(parts))
    incoming = decode(server, joined(parts))
    assert incoming.request == request
    assert incoming.api_key == key


@pytest.mark.parametrize("key", SAMPLES, ids=frame_name)
def test_response_bytes_change_unnoticed(key: ApiKey) -> None:
    """Every response, all its fields filled, has the bytes of its golden file and reads back."""
    client, server = greeted_pair()
    request, response = SAMPLES[key]
    incoming = send_request(client, server, request)
    check_golden(f"{frame_name(key)}_response", joined(server.encode(incoming, response)))
    assert send_response(client, server, incoming, response).response == response


def test_an_operation_has_no_golden_frames() -> None:
    """A new operation needs a sample, and with it its golden files."""
    assert {operation.key for operation in ALL_OPERATIONS} == set(SAMPLES)


# Fields that this dialect does not carry: they belong to Kafka's fetch sessions, replication and
# authorization.
NOT_CARRIED = {
    "MetadataRequest": {
        "include_cluster_authorized_operations",
        "include_topic_authorized_operations",
    },
    "MetadataResponse": {"authorized_operations"},
    "TopicMetadata": {"authorized_operations"},
    "FetchRequest": {
        "session_id",
        "session_epoch",
        "forgotten",
        "replica_id",
        "rack_id",
        "uses_topic_ids",
    },
    "FetchPartition": {"last_fetched_epoch", "log_start_offset"},
    "FetchResponse": {"session_id", "leaders"},
    "FetchPartitionResult": {"diverging_epoch", "current_leader"},
    "ProduceResponse": {"leaders"},
    "ProducePartitionResult": {"current_leader"},
    "ListOffsetsRequest": {"replica_id"},
    "DeleteTopicsRequest": {"named_twofold"},
    "JoinGroupRequest": {"knows_member_id_required", "knows_skip_assignment"},
}


def filled_fields(value: Any, found: dict[str, set[str]], declared: dict[str, set[str]]) -> None:
    """Note for each dataclass inside ``value`` which fields are not at their defaults."""
    if isinstance(value, (list, tuple)):
        for element in value:
            filled_fields(element, found, declared)
    if not dataclasses.is_dataclass(value):
        return
    name = type(value).__name__
    for field in dataclasses.fields(value):
        declared.setdefault(name, set()).add(field.name)
        content = getattr(value, field.name)
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if content != default:
            found.setdefault(name, set()).add(field.name)
        filled_fields(content, found, declared)


def test_a_field_is_never_sent() -> None:
    """The samples fill every field, so one that a message forgot does not come back."""
    found: dict[str, set[str]] = {}
    declared: dict[str, set[str]] = {}
    filled_fields(list(SAMPLES.values()), found, declared)
    left_out = {name: fields - found.get(name, set()) for name, fields in declared.items()}
    assert {name: fields for name, fields in left_out.items() if fields} == NOT_CARRIED


def test_hello_bytes_change_unnoticed() -> None:
    """Both hellos, as documented."""
    client_id, name, version = hello_bytes()
    client = NativeClient(client_id, software_name=name, software_version=version)
    check_golden("client_hello", client.hello())
    server = NativeServer(max_frame_bytes=104857600, max_in_flight=100, software_version="0.1")
    # The list of operations grows; the golden hello of the server only pins its fixed beginning.
    answer = joined(decode(server, client.hello()).parts)
    check_golden("server_hello_start", answer[:14])


def test_refusal_bytes_change_unnoticed() -> None:
    """The form in which a request fails as a whole."""
    client, server = greeted_pair()
    request, _ = SAMPLES[ApiKey.METADATA]
    frame = bytearray(joined(client.encode_request(request)[1]))
    frame[9:10] = b"\x7f"
    reply = decode(server, bytes(frame))
    check_golden("refusal_response", joined(reply.parts))


def test_the_document_shows_other_bytes_than_are_sent() -> None:
    """Each ``golden:`` block of docs/native-protocol.md is the golden file of that name."""
    text = (ROOT / "docs" / "native-protocol.md").read_text()
    blocks = re.findall(r"<!-- golden: (\w+) -->\n```text\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 6
    for name, block in blocks:
        shown = "".join(line.split("  ")[0] for line in block.splitlines())
        stored = (GOLDEN / f"{name}.hex").read_text()
        assert bytes.fromhex(shown) == bytes.fromhex(stored), name
