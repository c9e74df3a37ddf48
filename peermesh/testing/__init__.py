"""Test clusters of endpoints, or any trio service: worlds, faults, checkers, a pytest plugin."""
