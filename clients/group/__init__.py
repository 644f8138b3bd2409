"""Consumer groups: membership, who reads what, and committed offsets."""
