"""Mutation testing: seeded faults that the tests should find (``make mutants``).

``mutants.toml`` lists the faults. All of them are compiled into one module in a scratch copy of the tree, where an environment
variable selects one at run time. The original tree is not changed.
"""
