"""GRPO of the bundled GS1 experiment sends what tinker-cookbook's own functions would."""

from tests.conformance.clients import run
from tests.servers import SpindleServer


def test_the_stock_loop_that_the_spec_pins_sends_the_same_data(server: SpindleServer) -> None:
    sent = run("gs1_stock", server=server, clients=["cookbook-0.6.1", "cookbook-imports"])
    assert len(sent["stock"]) == 12
    assert sent["stock"] == sent["own"]
    advantages = [max(map(abs, row["advantages"])) for row in sent["own"]]
    assert advantages == [0.75, 0.25, 0.25, 0.25, 0.25, 0.25, 0.75, 0.25, 0, 0, 0, 0]
