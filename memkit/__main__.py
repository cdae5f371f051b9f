"""`python -m memkit` is the `memkit` command."""

from memkit.cli import main

if __name__ == "__main__":
    main()
