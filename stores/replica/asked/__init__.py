"""What was asked at one replica and waits for its group: writes, reads, orders, other requests."""
