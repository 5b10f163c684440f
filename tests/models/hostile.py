"""Files that run code when they are unpickled."""


class Bomb:
    """An object that creates a file when it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return (open, (str(self.marker), "w"))
