"""A client of etcd's JSON gateway; imported only where a cluster is asked for."""
