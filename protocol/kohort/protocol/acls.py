"""The enumerations of access control entries (ACLs), with Kafka's numbers and names.

Source: AclOperation and AclPermissionType in org.apache.kafka.common.acl; ResourceType and PatternType in
org.apache.kafka.common.resource.
"""

from enum import IntEnum
from typing import Final

ANY_NAME: Final = "*"
"""As the name of a literal resource: every resource of its type. As a host: every address."""
EVERY_USER: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""


class AclResourceType(IntEnum):
    """The type of a resource. Only filters may use `ANY`: it matches every type."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPatternType(IntEnum):
    """How a name selects resources. Only filters may use `ANY` and `MATCH`.

    `MATCH` matches every entry that applies to the resource: its literal name, `*`, and each prefix of its
    name.
    """

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """An operation on a resource. Only filters may use `ANY`. `ALL` in an entry means every operation."""

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
    """Whether an entry allows or denies. A denial wins. Only filters may use `ANY`."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3
