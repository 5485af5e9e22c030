"""Fields of a configuration by name, each with its place; what is wrong becomes a finding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.cluster.findings import Findings
from omnigraph.model.names import find_near_name

CODE = "invalid_cluster_yaml"


@dataclass(frozen=True, slots=True)
class Section:
    """The fields at a place of a file."""

    path: str
    fields: Mapping[str, object]
    findings: Findings

    @staticmethod
    def parse(tree: object, path: str, findings: Findings) -> Section | None:
        """The fields that a tree holds; None, and a finding, if it holds anything else."""
        if not isinstance(tree, Mapping):
            findings.error(CODE, path or "the file", "fields are needed here, as `name: value`")
            return None
        for key in tree:
            if not isinstance(key, str):
                findings.error(
                    CODE, path or "the file", f"the name {key!r} is no text; put it in quotes"
                )
        named = {key: value for key, value in tree.items() if isinstance(key, str)}
        return Section(path, named, findings)

    def keys(self) -> set[str]:
        """The names that are there."""
        return set(self.fields)

    def path_of(self, key: str) -> str:
        """Where a field is."""
        return f"{self.path}.{key}" if self.path else key

    def allow_only(self, *known: str) -> None:
        """Have every other name be an error."""
        for key in self.fields:
            if key not in known:
                near = find_near_name(key, known)
                advice = f"did you mean `{near}`?" if near else f"known are {', '.join(known)}"
                self.findings.error(CODE, self.path_of(key), f"unknown field `{key}`; {advice}")

    def refuse(self, key: str, rule: str) -> None:
        """Keep that a field is not what it has to be."""
        self.findings.error(CODE, self.path_of(key), rule)

    def find(self, key: str) -> object:
        """What a field holds; None if it is not there, or holds nothing."""
        return self.fields.get(key)

    def find_section(self, key: str) -> Section | None:
        """The fields of a field; None if it is not there."""
        found = self.fields.get(key)
        if found is None:
            return None
        return Section.parse(found, self.path_of(key), self.findings)

    def find_text(self, key: str) -> str | None:
        """The text of a field; None if it is not there, and a finding if it is no text."""
        found = self.fields.get(key)
        if found is None:
            return None
        if not isinstance(found, str) or not found.strip():
            self.refuse(key, "a text is needed here; if it looks like a number, put it in quotes")
            return None
        return found

    def get_text(self, key: str) -> str:
        """The text of a field that has to be there; nothing, and a finding, if it is not."""
        if self.fields.get(key) is None:
            self.refuse(key, f"`{key}` is missing")
            return ""
        return self.find_text(key) or ""
