"""The one base class of the errors that this program raises on purpose."""


class HracError(Exception):
    """Something a user can mend: the message says what is wrong and what to do. Anything else is a bug of ours."""
