"""The parts of `paired.py`: what is compared, how each arm trains, and what is checked before."""
