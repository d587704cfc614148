"""Groups explained to people: why they rebalance and what to do about it, and who holds which records.

Pure, and above the group coordinator, whose events it reads. The command line, the page and `/api` use it.
"""
