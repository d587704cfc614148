"""What is asked of groups: joining, living and leaving, offsets, and their administration."""
