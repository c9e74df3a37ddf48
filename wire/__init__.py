"""What travels between endpoints, and nothing of how: values, topics, clocks, messages, bytes."""
