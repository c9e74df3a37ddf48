"""The main job: a file of events, counted by Spark across a mesh of three processes, exactly.

``peermesh demo`` starts the roles ``sensor``, ``job`` and ``viewer`` as processes of their own. How
they stay exact while any of them is killed is told in ``peermesh.demo.intake``.
"""
