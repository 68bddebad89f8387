"""The verbs of headway fabric, one a file."""
