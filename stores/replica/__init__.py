"""One replica of a group: what decides between its handle, its files and its group."""
