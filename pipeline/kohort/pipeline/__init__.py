"""kohort.pipeline"""
