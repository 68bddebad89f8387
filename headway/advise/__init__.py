"""What to choose, and how far to trust it: predictions beside what others measured."""
