"""What is trained: the model as formulas (parameters, FLOPs, activation bytes), its split and its units."""
