"""The main job: a file of events through a log, Spark and a store, exactly, whoever is killed.

``peermesh demo`` starts six processes: three of ``member``, ``sensor``, ``driver`` and ``viewer``.
How they stay exact while any of them is killed is told in ``docs/pipeline.md``.
"""
