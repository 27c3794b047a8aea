"""What does harm to programs and servers, and undoes it: between them (proxy), to them (nemesis), in them (the n-th call)."""
