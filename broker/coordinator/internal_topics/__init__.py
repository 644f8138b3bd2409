"""Topics that coordinators keep their state in, written and read back."""
