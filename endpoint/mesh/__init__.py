"""What an endpoint knows of its mesh, and where messages go by it. Pure."""
