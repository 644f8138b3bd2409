"""Consumer groups: membership, assignment, and committed offsets."""
