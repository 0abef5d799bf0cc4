"""A pickle with a will of its own."""


class Evil:
    """What a pickle would do if it were let."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return open, (str(self.mark), "w")
