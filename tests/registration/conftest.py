"""Settings of the registration tests."""

# Written for PyTorch's runner of device-generic tests: test_upstream.py runs them.
collect_ignore = ["device_generic"]
