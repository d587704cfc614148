"""The live page: groups, topics, messages and health, drawn in a browser and kept up by server-sent events.

It is imported when somebody opens it, and not before.
"""

from kohort.broker.http.live.routes import index, routes

__all__ = ["index", "routes"]
