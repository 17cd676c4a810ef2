"""Public programs on the device: ``make programs``. ``programs.toml`` has the list, docs/programs.md the results."""
