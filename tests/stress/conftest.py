"""Programs that the tests start are not looked into for doctests."""

collect_ignore = ["extreme.py", "killed.py"]
