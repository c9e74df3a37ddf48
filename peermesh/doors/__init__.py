"""What the doors that are not trio's have in common: how an endpoint lives behind one."""
