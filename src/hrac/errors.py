"""The base class of the errors that this program raises on purpose, and the one for libraries that are not installed."""


class HracError(Exception):
    """Something a user can fix: the message says what is wrong and what to do. Any other error is a bug."""


class MissingExtraError(HracError, ImportError):
    """A library that is needed here is not installed; the message names the extra that brings it."""
