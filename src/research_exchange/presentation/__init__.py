"""How a run reads: its numbers in words, its figures as SVG, and the stylesheet of both.

Pages and reports show the same run, so what both say or draw stands here once. Everything is a function of documents
and of a judgment, in the standard library alone. It is imported module by module, so that a word loads no rules.
"""
