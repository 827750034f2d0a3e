"""`python -m jaxhamel`: the command line."""

from jaxhamel.cli import main

if __name__ == "__main__":
    main()
