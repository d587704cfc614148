"""What access control lists are made of, with Kafka's numbers and names.

Source: AclOperation and AclPermissionType in org.apache.kafka.common.acl; ResourceType and PatternType in
org.apache.kafka.common.resource.
"""

from enum import IntEnum
from typing import Final

ANY_NAME: Final = "*"
"""A literal resource of this name stands for all of its type; a host, for every address."""
ANYBODY: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""What the one resource of type CLUSTER is called."""


class AclResourceType(IntEnum):
    """What something may be done to. `ANY` stands in filters alone, for all of them."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPatternType(IntEnum):
    """Which resources a name means. `ANY` and `MATCH` stand in filters alone.

    `MATCH` is whatever holds for a resource of that name: literal, `*`, and each prefix of it.
    """

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """What may be done. `ANY` stands in filters alone; `ALL` in an entry is every operation."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(IntEnum):
    """Whether an entry allows or denies; a denial wins. `ANY` stands in filters alone."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3
