"""Work delivered one by one, on top of topics of any Kafka.

from kohort.queues.kmq import Queue, QueueClient, QueueWorker, RedeliveryTracker
"""
