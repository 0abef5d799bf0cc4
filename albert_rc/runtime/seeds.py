"""Random seeds derived from several small numbers."""


def mix(*numbers: int) -> int:
    """A 63-bit seed that depends on each of the numbers, and on their order.

    The finaliser is SplitMix64's (Steele, Lea and Flood 2014), so that neighbours such as
    (seed 1, epoch 2) and (seed 2, epoch 1) are unrelated.
    """
    state = 0
    for number in numbers:
        state = (state + number + 0x9E3779B97F4A7C15) & (2**64 - 1)
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
        state ^= state >> 31
    return state >> 1
