"""Every message of the APIs that kohort speaks; one module per API, named after it.

Import a message from its module. `kohort.protocol.registry` knows all APIs.
"""
