"""The one error of this package."""


class ConfigError(ValueError):
    """A configuration that cannot be used; its text is one sentence for an operator.

    Args:
        message: the sentence; it names the key, the value and the allowed values.
        key: the configuration key at fault, if there is one.
    """

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.key = key
