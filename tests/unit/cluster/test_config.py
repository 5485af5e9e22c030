"""`cluster.yaml` is understood whole or refused with everything that is wrong in it."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from omnigraph.cluster.config import (
    ClusterConfig,
    EmbeddingProfile,
    GraphDeclaration,
    PolicyDeclaration,
    encode_config,
    parse_config,
)
from omnigraph.cluster.resources import Findings, digest_config
from omnigraph.embed.profiles import ProviderKind

WHOLE = """
version: 1
metadata: {name: " crm "}
storage: s3://bucket/prefix
state: {backend: cluster, lock: false}
providers:
  embedding:
    main: {provider: gemini, base_url: "https://example.test/", model: m, api_key: "${KEY}"}
    fake: {kind: mock}
graphs:
  people:
    schema: people.pg
    queries: [a, b.gq]
    embedding_provider: provider.embedding.main
  places: {schema: places.pg, queries: {find: {file: find.gq}}}
policies:
  team: {file: team.yaml, applies_to: [places, graph.people, cluster, places]}
"""


def parsed(text: str) -> tuple[ClusterConfig | None, list[tuple[str, str]]]:
    findings = Findings()
    config = parse_config(text.encode(), findings)
    return config, [(each.code, each.path) for each in findings]


def test_every_field_is_understood() -> None:
    config, found = parsed(WHOLE)

    assert found == []
    assert config == ClusterConfig(
        name="crm",
        storage="s3://bucket/prefix",
        is_locked=False,
        providers={
            "fake": EmbeddingProfile(ProviderKind.MOCK, None, None, None),
            "main": EmbeddingProfile(ProviderKind.GEMINI, "https://example.test", "m", "KEY"),
        },
        graphs={
            "people": GraphDeclaration(
                "people", "people.pg", ("a", "b.gq"), {}, "provider.embedding.main"
            ),
            "places": GraphDeclaration("places", "places.pg", (), {"find": "find.gq"}, None),
        },
        policies={
            "team": PolicyDeclaration(
                "team", "team.yaml", ("cluster", "graph.people", "graph.places")
            )
        },
    )


def test_every_mistake_is_reported_with_its_place() -> None:
    _, found = parsed(
        """
version: 1
colour: red
ui: {}
metadata: {name: ""}
state: {backend: etcd, lock: maybe}
providers: {embedding: {a: {kind: openai, api_key: sk-1}, b: {kind: cohere}}}
graphs:
  g: {schema: 1, queries: 2, embedding_provider: c, size: 3}
  2g: {schema: g.pg}
  h: g.pg
policies:
  p: {applies_to: [graph.x, query.g.y]}
  q: {file: q.yaml, applies_to: cluster}
"""
    )

    assert sorted(found) == [
        ("dangling_embedding_provider_reference", "graphs.g.embedding_provider"),
        ("dangling_graph_reference", "policies.p.applies_to"),
        ("embedding_api_key_inline", "providers.embedding.a.api_key"),
        ("empty_metadata_name", "metadata.name"),
        ("future_phase_field", "ui"),
        ("invalid_cluster_yaml", "colour"),
        ("invalid_cluster_yaml", "graphs.g.queries"),
        ("invalid_cluster_yaml", "graphs.g.schema"),
        ("invalid_cluster_yaml", "graphs.g.size"),
        ("invalid_cluster_yaml", "graphs.h"),
        ("invalid_cluster_yaml", "policies.p.file"),
        ("invalid_cluster_yaml", "policies.q.applies_to"),
        ("invalid_cluster_yaml", "state.lock"),
        ("invalid_embedding_provider", "providers.embedding.b.kind"),
        ("invalid_resource_id", "graphs.2g"),
        ("unsupported_state_backend", "state.backend"),
        ("wrong_kind_reference", "policies.p.applies_to"),
    ]


def test_a_key_is_repeated_wherever_it_is() -> None:
    _, found = parsed("version: 1\ngraphs:\n  a: {schema: x}\n  a: {schema: y, schema: z}\n")

    assert sorted(found) == [
        ("duplicate_yaml_key", "graphs.a"),
        ("duplicate_yaml_key", "graphs.a.schema"),
    ]


@pytest.mark.parametrize("storage", ["http://a/b", "s3:/bucket/x", "gs://bucket", "memory://a"])
def test_a_place_that_cannot_hold_a_cluster_is_refused(storage: str) -> None:
    _, found = parsed(f"version: 1\nstorage: {storage}\n")

    assert found == [("invalid_storage_root", "storage")]


@pytest.mark.parametrize("storage", ["store", "../a/b", "/srv/x", "file:///srv/x", "s3://b/p"])
def test_a_place_that_can_hold_a_cluster_is_taken_as_it_is(storage: str) -> None:
    config, found = parsed(f"version: 1\nstorage: {storage}\n")

    assert found == []
    assert config is not None
    assert config.storage == storage


def test_a_cyclic_value_is_refused() -> None:
    config, found = parsed("version: 1\ngraphs: &all\n  a: *all\n")

    assert config is None
    assert found == [("invalid_cluster_yaml", "cluster.yaml")]


def test_order_and_layout_do_not_count() -> None:
    config, _ = parsed(WHOLE)
    tree = yaml.safe_load(WHOLE)
    turned, _ = parsed(yaml.safe_dump(dict(reversed(tree.items())), default_flow_style=True))

    assert config is not None
    assert turned is not None
    assert digest_config(encode_config(config), {}) == digest_config(encode_config(turned), {})


WORDS = (
    "version metadata name storage state lock providers embedding graphs policies schema queries "
    "file applies_to kind api_key a apply <<"
)
KEYS = st.sampled_from(WORDS.split())
TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | st.floats() | st.text(max_size=4) | KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.integers(), inner),
    max_leaves=20,
)


@given(st.dictionaries(KEYS, TREES).map(lambda tree: {"version": 1, **tree}))
def test_any_tree_is_understood_or_refused(tree: dict[str, object]) -> None:
    findings = Findings()

    config = parse_config(yaml.safe_dump(tree, allow_unicode=True).encode(), findings)

    assert config is not None or findings.has_errors


@given(st.binary() | st.text().map(str.encode))
@example(b"\xff\xfe\x00")
@example(b"a: !!python/object/apply:os.system ['true']")
@example(b"2026-99-99")
@example(b"[" * 1000)
@example(b"? [a]\n: 1\n")
@example(b"{[]: 1}")
def test_any_bytes_are_understood_or_refused(content: bytes) -> None:
    findings = Findings()

    config = parse_config(content, findings)

    assert config is not None or findings.has_errors
