"""Floor 4: one exchange, sans-IO. See `exchange.py`."""

from gateway.exchange.exchange import Delivery, Ending, Exchange, open_exchange, peek_request
from gateway.exchange.route import Overrides, RouteRules
from gateway.exchange.stored import StoredExchange

__all__ = [
    "Delivery",
    "Ending",
    "Exchange",
    "Overrides",
    "RouteRules",
    "StoredExchange",
    "open_exchange",
    "peek_request",
]
