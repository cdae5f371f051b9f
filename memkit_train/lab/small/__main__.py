"""Entry of `python -m memkit_train.lab.small`."""

import argparse
from pathlib import Path

from memkit_train.lab.small.build import EPOCHS, build

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m memkit_train.lab.small", description="Make the small manager.")
    parser.add_argument("--out", type=Path, required=True, help="folder for the weights")
    parser.add_argument("--begin", type=Path, help="folder of weights to go on from")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    build(asked.out, begin=asked.begin, epochs=asked.epochs, seed=asked.seed)
