"""Groups explained to people: why they rebalance and what to do about it, and who holds which records.

Pure, and above the group coordinator: a journal follows what that tells, and keeps each group's rebalances.
The command line, the page and `/api` use it.
"""
