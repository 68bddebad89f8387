"""The training network: fabrics as arrays, families of them, what they can carry and what is wrong with them."""
