"""Programs that show kohort at work on real data."""
