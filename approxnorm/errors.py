"""The one exception that users see."""


class ApproxNormError(ValueError):
    """A user's mistake, told in one sentence: the field or file, what was found, what is allowed.

    The command line prints the message without a traceback and exits with status 2.
    """
