"""Which function answers which API.

Modules are imported at the first request that needs them: a broker that starts for one test does not
pay for thirty APIs.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from kohort.broker.handlers.apis import ADMINISTRATION, BETWEEN, DATA, GROUPS, SHARE, TRANSACTIONS
from kohort.broker.transport.dispatch import Handle

if TYPE_CHECKING:
    from kohort.broker.handlers.administration.family import Administration
    from kohort.broker.handlers.between.family import Between
    from kohort.broker.handlers.data.family import Data
    from kohort.broker.handlers.groups.family import GroupServices
    from kohort.broker.handlers.opening import Opening
    from kohort.broker.handlers.share.family import ShareServices
    from kohort.broker.handlers.transactions.family import TransactionServices
    from kohort.broker.transport.request import Request


def _hang_up(_message: object, request: "Request") -> None:
    """Close the connection of a client that uses an API that was not offered."""
    request.hang_up()


class HandlerTable:
    """Every API's `handle`, bound to the family that it is of."""

    def __init__(
        self,
        groups: "GroupServices",
        data: "Data",
        administration: "Administration",
        opening: "Opening | None" = None,
        transactions: "TransactionServices | None" = None,
        *,
        sharing: "Callable[[], ShareServices] | None" = None,
        between: "Between | None" = None,
    ) -> None:
        """Bind the families; without `opening` a handler opens the logs that it uses.

        Without `transactions` their requests are not answered: they were not offered. The same holds for
        share groups and `sharing`, which is called at the first such request, and for requests of other
        brokers and `between`.
        """
        self._opening = opening
        self._sharing = sharing
        self._places: dict[int, tuple[str, object]] = {}
        self._bound: dict[int, Handle] = {}
        for name, family, modules in (
            ("groups", groups, GROUPS),
            ("data", data, DATA),
            ("share", None, SHARE),
            ("transactions", transactions, TRANSACTIONS),
            ("administration", administration, ADMINISTRATION),
            ("between", between, BETWEEN),
        ):
            for api_key, module in modules.items():
                self._places[api_key] = (f"kohort.broker.handlers.{name}.{module}", family)

    def handler_of(self, api_key: int) -> Handle:
        """Return the `handle` function of the API's module, bound to its family."""
        handle = self._bound.get(api_key)
        if handle is None:
            module, family = self._places[api_key]
            if api_key in SHARE and self._sharing is not None:
                family = self._sharing()
            if family is None:
                return _hang_up
            handle = partial(import_module(module).handle, family)
            if self._opening is not None:
                handle = self._opening.before(api_key, handle)
            self._bound[api_key] = handle
        return handle
