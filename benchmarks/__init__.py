"""How fast the mesh is, beside the least that such a thing could cost: ``python -m benchmarks``.

Not part of the distribution. Every figure comes from processes of their own on the loopback
interface, and stands beside a floor that was measured in the same round: see
``docs/benchmarks.md``.
"""
