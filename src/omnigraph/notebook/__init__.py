"""OmniGraph in notebooks: pictures of the history; `%load_ext omnigraph` adds query cells."""

from omnigraph.notebook.pictures import HistoryPicture, draw

__all__ = ["HistoryPicture", "draw"]
