"""Which module answers which API, by family."""

GROUPS = {
    8: "offset_commit",
    9: "offset_fetch",
    10: "find_coordinator",
    11: "join_group",
    12: "heartbeat",
    13: "leave_group",
    14: "sync_group",
    15: "describe_groups",
    16: "list_groups",
    42: "delete_groups",
    47: "offset_delete",
    68: "consumer_group_heartbeat",
    69: "consumer_group_describe",
    88: "streams_group_heartbeat",
    89: "streams_group_describe",
}

DATA = {
    0: "produce",
    1: "fetch",
    2: "list_offsets",
    21: "delete_records",
    22: "init_producer_id",
    23: "offset_for_leader_epoch",
    61: "describe_producers",
}

SHARE = {
    76: "share_group_heartbeat",
    77: "share_group_describe",
    78: "share_fetch",
    79: "share_acknowledge",
    83: "share_group_state",
    84: "share_group_state",
    85: "share_group_state",
    86: "share_group_state",
    87: "share_group_state",
    90: "describe_share_group_offsets",
    91: "alter_share_group_offsets",
    92: "delete_share_group_offsets",
}

TRANSACTIONS = {
    24: "add_partitions_to_txn",
    25: "add_offsets_to_txn",
    26: "end_txn",
    27: "write_txn_markers",
    28: "txn_offset_commit",
    65: "describe_transactions",
    66: "list_transactions",
}

ADMINISTRATION = {
    3: "metadata",
    17: "sasl_handshake",
    18: "api_versions",
    19: "create_topics",
    20: "delete_topics",
    29: "describe_acls",
    30: "create_acls",
    31: "delete_acls",
    32: "describe_configs",
    33: "alter_configs",
    35: "describe_log_dirs",
    36: "sasl_authenticate",
    37: "create_partitions",
    43: "elect_leaders",
    44: "incremental_alter_configs",
    45: "alter_partition_reassignments",
    46: "list_partition_reassignments",
    48: "describe_client_quotas",
    49: "alter_client_quotas",
    50: "describe_user_scram_credentials",
    51: "alter_user_scram_credentials",
    60: "describe_cluster",
    64: "unregister_broker",
    71: "get_telemetry_subscriptions",
    72: "push_telemetry",
    74: "list_config_resources",
    75: "describe_topic_partitions",
}

BETWEEN = {
    30_001: "readable_offsets",
    30_002: "broker_page",
}
"""Requests between kohort's brokers: they are not offered to clients."""

MODULES = {**GROUPS, **DATA, **SHARE, **TRANSACTIONS, **ADMINISTRATION}
