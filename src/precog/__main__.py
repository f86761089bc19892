"""``python -m precog``: the command ``precog``, for launchers that start modules, such as torchrun."""

from precog.cli.main import main

if __name__ == "__main__":
    main()
