"""`python -m memkit_train` is the `memkit-train` command; `torchrun -m memkit_train …` starts it several times."""

from memkit_train.cli import main

if __name__ == "__main__":
    main()
