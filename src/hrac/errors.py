"""The one base class of the errors that this program raises on purpose."""


class HracError(Exception):
    """Something a user can fix: the message says what is wrong and what to do. Any other error is a bug."""
