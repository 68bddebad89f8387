"""What people look at: traces and plans as tables and pictures, made by pure functions."""
