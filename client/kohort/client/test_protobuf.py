"""What a Protobuf serializer asks its registry. No registry is there."""

from collections.abc import Sequence

import pytest

from kohort.client.protobuf import Protobuf
from kohort.client.schema_registry import SchemaReference, SchemaRegistry

pytest.importorskip("google.protobuf", reason="the extra `registry` has protobuf")

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

IMPORTS = {
    "layers of two that import both below": {
        f"{name}{depth}": [f"a{depth - 1}", f"b{depth - 1}"] if depth else []
        for depth in range(12)
        for name in "ab"
    }
    | {"top": ["a11", "b11"]},
    "a diamond": {"base": [], "left": ["base"], "right": ["base"], "top": ["left", "right"]},
    "each imports all before it": {
        **{f"f{number}": [f"f{each}" for each in range(number)] for number in range(14)},
        "top": [f"f{each}" for each in range(14)],
    },
    "a chain": {"one": [], "two": ["one"], "top": ["two"]},
}


class Registry(SchemaRegistry):
    """Keeps what it is asked to register and to look up; versions count up."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:1")
        self.posted: list[str] = []
        self.looked_up: dict[str, Sequence[SchemaReference]] = {}

    def register(
        self, subject: str, text: str, kind: str = "AVRO", references: Sequence[SchemaReference] = ()
    ) -> int:
        self.posted.append(subject)
        return len(self.posted)

    def registered(
        self, subject: str, text: str, kind: str = "AVRO", references: Sequence[SchemaReference] = ()
    ) -> tuple[int, int]:
        assert subject not in self.looked_up
        self.looked_up[subject] = references
        return len(self.looked_up), len(self.looked_up)


@pytest.mark.parametrize("files", IMPORTS.values(), ids=IMPORTS)
@pytest.mark.parametrize("may_register", [True, False])
def test_each_imported_file_is_registered_once_before_those_that_import_it(
    files: dict[str, list[str]], may_register: bool
) -> None:
    pool = DescriptorPool()
    for name, imports in files.items():
        file = FileDescriptorProto(name=name, package=name, syntax="proto3", dependency=imports)
        pool.AddSerializedFile(file.SerializeToString())
    last = FileDescriptorProto(name="main", package="main", syntax="proto3", dependency=["top"])
    last.message_type.add(name="User")
    pool.AddSerializedFile(last.SerializeToString())
    kind = GetMessageClass(pool.FindMessageTypeByName("main.User"))
    registry = Registry()
    serialize = Protobuf(registry, kind).serializer("users", register=may_register)
    assert serialize(kind()) == serialize(kind())
    asked = list(registry.looked_up)
    assert sorted(asked) == sorted([*files, "users"])
    assert registry.posted == (asked if may_register else [])
    versions = {name: number for number, name in enumerate(asked, 1)}
    for name, imports in files.items():
        expected = [SchemaReference(each, each, versions[each]) for each in imports]
        assert list(registry.looked_up[name]) == expected
        assert all(versions[each] < versions[name] for each in imports)
