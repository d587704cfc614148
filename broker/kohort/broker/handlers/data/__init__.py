"""What is asked of records: producing, fetching, and where logs begin and end."""
