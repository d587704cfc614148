"""What makes a broker one of several: its lease, its share of the controller's work, its leaderships."""
