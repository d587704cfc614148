"""What groups with epochs have in common: consumer, share and streams groups, whose members go on one by one.

The kinds build on it, and it knows none of them.
"""
