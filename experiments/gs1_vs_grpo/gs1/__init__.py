"""What `gs1_vs_grpo.py` is made of: the plan, the baselines, the checks before training, what a stop takes."""
