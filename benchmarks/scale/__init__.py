"""How far flooding carries: meshes of up to a thousand pure cores in virtual time.

``python -m benchmarks.scale`` measures, ``docs/scale.md`` shows the figures and what they say.
"""
