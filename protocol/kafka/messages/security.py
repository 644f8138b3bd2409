"""SASL, ACLs, delegation tokens, quotas and SCRAM: known, so that they can be refused in words.

Of requests only what an answer repeats is declared, of responses only what a refusal holds.
"""

from seglog.protocol.kafka.schema import (
    Message,
    Struct,
    Undeclared,
    array,
    binary,
    boolean,
    float64,
    int8,
    int16,
    int32,
    int64,
    string,
)


class SaslHandshakeResponse(Message, api_key=17, versions="0-1"):
    """The mechanisms that there are: none."""

    error_code: int = int16("0+")
    mechanisms: list[str] = array("string", "0+")


class DescribeAclsResponse(Message, api_key=29, versions="0-3", flexible="2+"):
    """The rules that match a filter."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resources: list[Undeclared] = array(Undeclared, "0+")


class AclCreation(Struct):
    """A rule to add."""

    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    resource_pattern_type: int = int8("1+", default=3)
    principal: str = string("0+")
    host: str = string("0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class CreateAclsRequest(Message, api_key=30, versions="0-3", flexible="2+"):
    """Adds rules."""

    creations: list[AclCreation] = array(AclCreation, "0+")


class AclCreationResult(Struct):
    """What became of one rule."""

    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


class CreateAclsResponse(Message, api_key=30, versions="0-3", flexible="2+"):
    """One result a rule."""

    throttle_time_ms: int = int32("0+")
    results: list[AclCreationResult] = array(AclCreationResult, "0+")


class DeleteAclsFilter(Struct):
    """Which rules to remove."""

    resource_type_filter: int = int8("0+")
    resource_name_filter: str | None = string("0+", nullable="0+")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string("0+", nullable="0+")
    host_filter: str | None = string("0+", nullable="0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class DeleteAclsRequest(Message, api_key=31, versions="0-3", flexible="2+"):
    """Removes rules."""

    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter, "0+")


class DeleteAclsFilterResult(Struct):
    """What one filter removed."""

    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    matching_acls: list[Undeclared] = array(Undeclared, "0+")


class DeleteAclsResponse(Message, api_key=31, versions="0-3", flexible="2+"):
    """One result a filter."""

    throttle_time_ms: int = int32("0+")
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult, "0+")


class SaslAuthenticateResponse(Message, api_key=36, versions="0-2", flexible="2+"):
    """The next token of the server."""

    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    auth_bytes: bytes = binary("0+")
    session_lifetime_ms: int = int64("1+", default=0, ignorable=True)


class CreateDelegationTokenResponse(Message, api_key=38, versions="0-3", flexible="2+"):
    """A new token."""

    error_code: int = int16("0+")
    principal_type: str = string("0+")
    principal_name: str = string("0+")
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64("0+")
    expiry_timestamp_ms: int = int64("0+")
    max_timestamp_ms: int = int64("0+")
    token_id: str = string("0+")
    hmac: bytes = binary("0+")
    throttle_time_ms: int = int32("0+")


class RenewDelegationTokenResponse(Message, api_key=39, versions="0-2", flexible="2+"):
    """When a renewed token expires."""

    error_code: int = int16("0+")
    expiry_timestamp_ms: int = int64("0+")
    throttle_time_ms: int = int32("0+")


class ExpireDelegationTokenResponse(Message, api_key=40, versions="0-2", flexible="2+"):
    """When a token that was given up expires."""

    error_code: int = int16("0+")
    expiry_timestamp_ms: int = int64("0+")
    throttle_time_ms: int = int32("0+")


class DescribeDelegationTokenResponse(Message, api_key=41, versions="0-3", flexible="2+"):
    """The tokens of some owners."""

    error_code: int = int16("0+")
    tokens: list[Undeclared] = array(Undeclared, "0+")
    throttle_time_ms: int = int32("0+")


class DescribeClientQuotasResponse(Message, api_key=48, versions="0-1", flexible="1+"):
    """The quotas of some entities; null where there was an error."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    entries: list[Undeclared] | None = array(Undeclared, "0+", nullable="0+")


class EntityData(Struct):
    """A part of what a quota is about, such as a user."""

    entity_type: str = string("0+")
    entity_name: str | None = string("0+", nullable="0+")


class OpData(Struct):
    """One quota to set or remove."""

    key: str = string("0+")
    value: float = float64("0+")
    remove: bool = boolean("0+")


class AlteredEntry(Struct):
    """The changes of one entity."""

    entity: list[EntityData] = array(EntityData, "0+")
    ops: list[OpData] = array(OpData, "0+")


class AlterClientQuotasRequest(Message, api_key=49, versions="0-1", flexible="1+"):
    """Changes quotas."""

    entries: list[AlteredEntry] = array(AlteredEntry, "0+")
    validate_only: bool = boolean("0+")


class AlteredResult(Struct):
    """What became of the changes of one entity."""

    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    entity: list[EntityData] = array(EntityData, "0+")


class AlterClientQuotasResponse(Message, api_key=49, versions="0-1", flexible="1+"):
    """One result an entity."""

    throttle_time_ms: int = int32("0+")
    entries: list[AlteredResult] = array(AlteredResult, "0+")


class DescribeUserScramCredentialsResponse(Message, api_key=50, versions="0", flexible="0+"):
    """The credentials that users have."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    results: list[Undeclared] = array(Undeclared, "0+")


class ScramCredentialDeletion(Struct):
    """A credential to remove."""

    name: str = string("0+")
    mechanism: int = int8("0+")


class ScramCredentialUpsertion(Struct):
    """A credential to set."""

    name: str = string("0+")
    mechanism: int = int8("0+")
    iterations: int = int32("0+")
    salt: bytes = binary("0+")
    salted_password: bytes = binary("0+")


class AlterUserScramCredentialsRequest(Message, api_key=51, versions="0", flexible="0+"):
    """Changes the credentials of users."""

    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion, "0+")
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion, "0+")


class AlterUserScramCredentialsResult(Struct):
    """What became of the changes of one user."""

    user: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


class AlterUserScramCredentialsResponse(Message, api_key=51, versions="0", flexible="0+"):
    """One result a user."""

    throttle_time_ms: int = int32("0+")
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult, "0+")
