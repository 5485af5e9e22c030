"""`python -m omnigraph.server`: the same as the `omnigraph-server` command."""

from omnigraph.server.main import main

if __name__ == "__main__":
    main()
