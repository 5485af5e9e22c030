"""What Lance remembers of how a version came about.

Recovery knows its own commits by this, long after whoever made them is gone.
"""

from __future__ import annotations

from copy import copy

from omnigraph.storage.lance_errors import FOREIGN, Failure, classify, translate
from omnigraph.storage.lance_handles import LanceHandles, describe_version
from omnigraph.storage.ports import TableVersion, TransactionRecord


def find_transaction(handles: LanceHandles, at: TableVersion) -> TransactionRecord | None:
    """The transaction that made a version; None if Lance does not know, or cannot say."""
    table = handles.find_newest(at.ref)
    if table is None or table.version < at.version:
        return None
    try:
        # Lance holds a handle for itself while it looks, and refuses readers then.
        found = copy(table).read_transaction(at.version)
    except TypeError:
        # Lance's own compaction of an indexed table, which pylance 14 cannot put into words.
        return None
    except FOREIGN as error:
        if classify(error) is Failure.MISSING_VERSION:
            return None
        name = describe_version(at)
        raise translate(error, table=name, action=f"read what made '{name}'") from error
    if found is None:
        return None
    return TransactionRecord(
        uuid=found.uuid,
        read_version=found.read_version,
        operation=type(found.operation).__name__,
        properties=dict(found.transaction_properties or {}),
    )
