"""kohort.protocol"""
