"""OmniGraph in a notebook: pictures of a history; `%load_ext omnigraph` adds cells of queries."""

from omnigraph.notebook.pictures import HistoryPicture, draw

__all__ = ["HistoryPicture", "draw"]
