"""The audit log: a file of JSON lines with logins, changes, and uses of resources."""
