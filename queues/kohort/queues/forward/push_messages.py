"""The messages of push.proto, made without generated code. protobuf is imported where a stream needs it."""

from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from kohort.client.errors import MissingExtraError

PACKAGE = "kohort.forward.v1"
FILE = "kohort/forward/v1/push.proto"
RECORD = (("id", "INT64"), ("value", "BYTES"), ("metadata", "MAP"), ("timeout_ms", "INT32"))
ANSWER = (("id", "INT64"), ("code", "STRING"), ("details", "STRING"), ("metadata", "MAP"))


class PushMessages(NamedTuple):
    """The classes of a record and of an answer."""

    record: Any
    answer: Any


@cache
def push_messages() -> PushMessages:
    """Return the classes. Raises: MissingExtraError without protobuf."""
    try:
        descriptors = import_module("google.protobuf.descriptor_pb2")
        pools = import_module("google.protobuf.descriptor_pool")
        factory = import_module("google.protobuf.message_factory")
    except ImportError as error:
        raise MissingExtraError('a stream of gRPC needs protobuf: pip install "kohort[queues]"') from error
    pool = pools.DescriptorPool()
    pool.AddSerializedFile(file_descriptor(descriptors).SerializeToString())
    found = (pool.FindMessageTypeByName(f"{PACKAGE}.{name}") for name in ("Record", "Answer"))
    return PushMessages(*map(factory.GetMessageClass, found))


def file_descriptor(descriptors: Any) -> Any:
    """Return the descriptor of the messages' file; `descriptors` is the module descriptor_pb2."""
    file = descriptors.FileDescriptorProto(name=FILE, package=PACKAGE, syntax="proto3")
    field = descriptors.FieldDescriptorProto
    for name, fields in (("Record", RECORD), ("Answer", ANSWER)):
        message = file.message_type.add(name=name)
        for number, (each, kind) in enumerate(fields, 1):
            if kind == "MAP":
                entry = message.nested_type.add(name="MetadataEntry")
                entry.options.map_entry = True
                for place, part in enumerate(("key", "value"), 1):
                    entry.field.add(
                        name=part, number=place, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL
                    )
                message.field.add(
                    name=each,
                    number=number,
                    type=field.TYPE_MESSAGE,
                    type_name=f".{PACKAGE}.{name}.MetadataEntry",
                    label=field.LABEL_REPEATED,
                )
            else:
                kind_number = getattr(field, f"TYPE_{kind}")
                message.field.add(name=each, number=number, type=kind_number, label=field.LABEL_OPTIONAL)
    return file
