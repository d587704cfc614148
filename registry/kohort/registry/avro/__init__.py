"""Avro: reading schemas, writing them in one form, and the rules by which one reads the data of another."""
