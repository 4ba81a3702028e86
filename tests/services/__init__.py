"""Real services that tests start on free ports of this machine, and stop: no mocks of them."""
