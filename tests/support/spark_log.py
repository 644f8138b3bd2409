"""What a Spark session has written to its standard error."""

from pathlib import Path


class SparkLog:
    """What the JVM and its Python processes have written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._start = 0

    def begin(self) -> None:
        """Forget what is there."""
        self._start = self.path.stat().st_size

    def lines(self, word: str) -> list[str]:
        """The lines since ``begin`` that have a word in them."""
        with self.path.open("rb") as file:
            file.seek(self._start)
            text = file.read().decode(errors="replace")
        return [line for line in text.splitlines() if word in line]
