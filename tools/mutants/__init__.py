"""Seeded faults, which tell whether the tests find faults: ``make mutants``.

``mutants.toml`` lists them. All are compiled into one module, in a scratch copy of the tree, where an environment variable chooses
one at run time: so a build serves for all of them. The real tree has no trace of them.
"""
