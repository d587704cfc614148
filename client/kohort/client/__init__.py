"""kohort.client"""
