"""Replicas of groups: stores whose every acknowledged write a majority of voters has."""
