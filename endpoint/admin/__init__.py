"""The admin service: what endpoints ask of each other, over a topic that users cannot reach."""
