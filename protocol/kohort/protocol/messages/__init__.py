"""The messages of each API, in a module with the API's name.

Import a message from its module. `kohort.protocol.registry` knows all APIs.
"""
