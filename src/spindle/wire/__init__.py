"""The HTTP surface under /api/v1: routes, and what travels as JSON, protobuf and zstd.

`schema.proto` is our own copy of the published field numbers (`make proto` compiles it), `codec` turns messages into
arrays and back, `requests` are the JSON bodies, `results` the JSON answers, `clients` knows what older SDKs cannot
read, and each `routes_*` is one topic of the API. No model code and no rules live here.
"""

from spindle.wire.app import create_app

__all__ = ["create_app"]
