"""JSON Schema: reading, references to other schemas, and whether documents of one schema fit another."""
