"""Explains groups to people: why they rebalance and what to do about it, and who has acquired which records.

Pure, and above the group coordinator: a journal follows its events, and keeps each group's rebalances.
The command line, the page and `/api` use it.
"""
