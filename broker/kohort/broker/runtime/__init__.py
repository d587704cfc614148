"""What everything stands on: time, timers, threads and tasks, and the way into the loop from elsewhere."""
