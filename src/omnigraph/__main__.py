"""`python -m omnigraph`: the same as the `omnigraph` command."""

from omnigraph.cli.main import main

if __name__ == "__main__":
    main()
