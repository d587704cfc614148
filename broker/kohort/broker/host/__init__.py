"""Several brokers of one host behind one address: `kohort serve --workers N`.

A supervisor starts a worker for each, a process that is a broker, and serves them the metadata which a
cluster has in etcd, over a socket that each worker was born with.
"""
