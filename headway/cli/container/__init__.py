"""The verbs of headway container: making containers, and what becomes of them."""
