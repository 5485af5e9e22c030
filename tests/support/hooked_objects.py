"""Object stores with hooks: a function runs just before a call about some path.

The hook may raise, as a failing storage does, or change what is stored, as another process does.
Everything else goes to the real store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn, ParamSpec, TypeAlias, TypeVar

from omnigraph.cluster.context import ClusterContext
from omnigraph.errors import UnavailableError
from omnigraph.storage.objects import open_objects
from omnigraph.storage.ports import ObjectStore
from tests.support.clusters import plain_context

P = ParamSpec("P")
T = TypeVar("T")

Hook: TypeAlias = Callable[..., object]
"""Takes what the call was given: a path, and perhaps a content."""


class HookedObjects:
    """An object store with a hook before every call of one name about paths that contain a part."""

    def __init__(self, objects: ObjectStore, call: str, part: str, hook: Hook) -> None:
        def watch(method: Callable[P, T]) -> Callable[P, T]:
            name = getattr(method, "__name__", "")

            def run(*args: P.args, **kwargs: P.kwargs) -> T:
                if name == call and part in str(args[0]):
                    hook(*args)
                return method(*args, **kwargs)

            return run

        self.find = watch(objects.find)
        self.list = watch(objects.list)
        self.tokens = watch(objects.tokens)
        self.put = watch(objects.put)
        self.put_if_absent = watch(objects.put_if_absent)
        self.put_if_match = watch(objects.put_if_match)
        self.delete = watch(objects.delete)
        self.delete_prefix = watch(objects.delete_prefix)


def hooked_context(call: str, part: str, hook: Hook) -> ClusterContext:
    """The context of a test, with a hook before some calls about a cluster's own objects."""
    return replace(
        plain_context(),
        open_objects=lambda location: HookedObjects(
            open_objects(location, is_durable=False), call, part, hook
        ),
    )


def failing_context(call: str, part: str) -> ClusterContext:
    """The context of a test, with a storage that fails some calls about a cluster's own objects."""

    def refuse(*_given: object) -> NoReturn:
        raise UnavailableError(action=f"{call} {part}", reason="the storage did not respond")

    return hooked_context(call, part, refuse)
