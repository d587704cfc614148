"""A consumer as a member of its group: by the protocol that is set, and as a transaction names it."""

from kohort.client.config import ConsumerConfig
from kohort.client.membership import ClassicMembership, MemberSettings, Membership
from kohort.client.values import GroupMetadata


def new_membership(config: ConsumerConfig, group_id: str, member_id: str = "") -> Membership:
    """Return a membership in the group protocol that is set; `member_id` is that of the one before it."""
    settings = MemberSettings(
        group_id=group_id,
        session_timeout_ms=config.session_timeout_ms,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        max_poll_interval_ms=config.max_poll_interval_ms,
        retry_backoff_ms=config.retry_backoff_ms,
        retry_backoff_max_ms=config.retry_backoff_max_ms,
        request_timeout_ms=config.request_timeout_ms,
        group_instance_id=config.group_instance_id,
        rack_id=config.client_rack,
    )
    if config.group_protocol == "classic":
        return ClassicMembership(settings, config.assignors)
    from uuid import uuid4  # noqa: PLC0415  # Members of classic groups don't pay for it.

    from kohort.client.membership.consumer import ConsumerMembership  # noqa: PLC0415

    return ConsumerMembership(settings, member_id or str(uuid4()), config.group_remote_assignor)


def place_in_group(
    config: ConsumerConfig, group_id: str, generation_id: int, member_id: str
) -> GroupMetadata:
    """Return the consumer's place in its group, as a transaction needs it."""
    return GroupMetadata(group_id, generation_id, member_id, config.group_instance_id, _caveat(config))


def _caveat(config: ConsumerConfig) -> str:
    """Return the problem of this consumer's offsets in a producer's transaction, as text."""
    settings = []
    if not config.reads_committed:
        settings.append(
            "isolation_level='read_uncommitted': it also reads records whose transaction is open or aborted;"
            " set 'read_committed'"
        )
    if config.enable_auto_commit:
        settings.append(
            "enable_auto_commit=True: its polls commit offsets outside of the transaction; set it to False"
        )
    whose = f"a transaction commits offsets of group {config.group_id!r}, whose consumer has "
    return f"{whose}{'; and '.join(settings)}" if settings else ""
