"""Other libraries' interfaces on the mesh, for programs that come from them."""
