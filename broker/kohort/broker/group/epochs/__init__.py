"""The common part of groups with epochs: consumer, share and streams groups, whose members reconcile one by
one.

The kinds build on it, and it knows none of them.
"""
