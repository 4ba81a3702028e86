"""A command that only asks an Exchange answers at once: it loads neither a server nor a database."""

import subprocess
import sys

ASKING = """
import sys
import research_exchange.cli
import research_exchange.cli.exchange
import research_exchange.client
import research_exchange.runner
print(sorted({"alembic", "fastapi", "jinja2", "sqlalchemy", "uvicorn"} & set(sys.modules)))
"""


def test_what_asks_an_exchange_loads_no_server() -> None:
    ran = subprocess.run([sys.executable, "-c", ASKING], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout == "[]\n"
