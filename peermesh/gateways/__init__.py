"""Front ends that speak other people's protocols, over HTTP."""
