"""``python -m approxnorm``: the command line."""

from approxnorm.cli import main

if __name__ == "__main__":
    main()
