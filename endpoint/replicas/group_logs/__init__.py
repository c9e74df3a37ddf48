"""Replicas of groups that keep logs: a majority of voters has every acknowledged append."""
