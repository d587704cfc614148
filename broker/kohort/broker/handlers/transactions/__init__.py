"""What transactional producers ask, and what tools ask about them."""
