"""What happens in which order: actions, families, passes, operations and the one rule of dependency."""
