"""kohort.cli"""
