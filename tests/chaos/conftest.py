"""The etcd that the cluster's tests use as well."""

from tests.cluster.conftest import etcd_program, shared_etcd

__all__ = ["etcd_program", "shared_etcd"]
