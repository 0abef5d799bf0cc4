"""albert-rc with dropout masks of torch's own generator, to compare the accuracy of ours with.

python -m experiments.tables.torch_dropout train ...
"""

import torch
from torch import Tensor

from albert_rc.cli.app import main
from albert_rc.model.dropout import Dropout


def _mask(self: Dropout, shape: tuple[int, ...]) -> Tensor:
    return torch.empty(shape, dtype=torch.int8).bernoulli_(1 - self.rate).neg_()


Dropout.mask = _mask  # type: ignore[method-assign]
Dropout.scale = property(lambda self: 1 / (1 - self.rate))  # type: ignore[assignment,method-assign]

if __name__ == "__main__":
    main()
