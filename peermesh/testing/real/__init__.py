"""Real faults for real processes: loops that break a small mesh, and look for what was lost.

``python -m peermesh.testing.real`` runs them for as many rounds as wanted; the tests run a few.
"""
