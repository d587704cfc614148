"""Between the transport and those who answer, where there are quotas: how much clients may ask."""
