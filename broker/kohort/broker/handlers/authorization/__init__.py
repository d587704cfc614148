"""Between the transport and those who answer, where there is an authorizer: who may ask what."""
