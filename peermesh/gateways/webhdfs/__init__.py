"""WebHDFS in front of a store: what Spark needs for its checkpoints (extra ``http``)."""
