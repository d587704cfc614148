"""kohort.storage"""
