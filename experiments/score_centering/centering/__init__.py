"""What `rl_score_centering.py` is made of: the plan, the losses, one training, and the checks before any of them."""
