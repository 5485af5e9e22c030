"""What a folder may declare; all of its mistakes are reported at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.clusters import (
    FIND_PERSON,
    MISTYPED,
    PEOPLE,
    SERVER_POLICY,
    TEAM_POLICY,
    knowledge_cluster,
    reported_codes,
    write_config,
    write_files,
)
from tests.support.commands import Ended, invoke_command


def validated(folder: Path) -> Ended:
    return invoke_command("cluster", "validate", "--config", folder, "--json")


def messages(ended: Ended) -> str:
    diagnostics = ended.fields["diagnostics"]
    assert isinstance(diagnostics, list)
    return "\n".join(f"{each['path']}: {each['message']}" for each in diagnostics)


def test_a_folder_that_is_right_lists_its_resources_and_what_they_need(tmp_path: Path) -> None:
    knowledge_cluster(tmp_path)

    ended = validated(tmp_path)

    assert ended.code == 0
    assert ended.fields["ok"] is True
    assert ended.fields["diagnostics"] == []
    resources = ended.fields["resources"]
    assert isinstance(resources, list)
    assert [(each["address"], each["kind"], each.get("path")) for each in resources] == [
        ("graph.knowledge", "graph", None),
        ("policy.team", "policy", "team.yaml"),
        ("query.knowledge.find_person", "query", "queries/people.gq"),
        ("schema.knowledge", "schema", "people.pg"),
    ]
    assert ended.fields["dependencies"] == [
        {"from": "policy.team", "to": "graph.knowledge"},
        {"from": "query.knowledge.find_person", "to": "graph.knowledge"},
        {"from": "query.knowledge.find_person", "to": "schema.knowledge"},
        {"from": "schema.knowledge", "to": "graph.knowledge"},
    ]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("version: 1\ngraphz: {}\n", "invalid_cluster_yaml"),
        ("version: 1\ngraphs:\n  a: {schema: a.pg, colour: red}\n", "invalid_cluster_yaml"),
        ("version: 1\npipelines: []\n", "future_phase_field"),
        ("version: 1\ngraphs: {}\ngraphs: {}\n", "duplicate_yaml_key"),
        ("version: 1\ngraphs:\n  a: {schema: a.pg}\n", "schema_file_missing"),
        ("version: 1\ngraphs:\n  a: {schema: a.pg, queries: [a.gq]}\n", "query_file_missing"),
        (
            "version: 1\npolicies:\n  p: {file: p.yaml, applies_to: [cluster]}\n",
            "policy_file_missing",
        ),
        (
            "version: 1\npolicies:\n  p: {file: p.yaml, applies_to: [schema.a]}\n",
            "wrong_kind_reference",
        ),
        (
            "version: 1\npolicies:\n  p: {file: p.yaml, applies_to: [nowhere]}\n",
            "dangling_graph_reference",
        ),
        ("version: 1\npolicies:\n  p: {file: p.yaml}\n", "policy_missing_applies_to"),
        ("version: 2\n", "unsupported_cluster_config_version"),
        ("graphs: {}\n", "unsupported_cluster_config_version"),
        ("version: 1\nmetadata: {name: '  '}\n", "empty_metadata_name"),
        ("version: 1\nstate: {backend: etcd}\n", "unsupported_state_backend"),
        ("version: 1\nstorage: ftp://somewhere/team\n", "invalid_storage_root"),
        ("version: 1\ngraphs:\n  1a: {schema: a.pg}\n", "invalid_resource_id"),
        ("version: 1\ngraphs: [\n", "invalid_cluster_yaml"),
        ("- 1\n", "invalid_cluster_yaml"),
        (
            "version: 1\ngraphs:\n  a: {schema: a.pg, embedding_provider: p}\n",
            "dangling_embedding_provider_reference",
        ),
        (
            "version: 1\ngraphs:\n  a: {schema: a.pg, embedding_provider: graph.a}\n",
            "wrong_kind_reference",
        ),
        (
            "version: 1\nproviders: {embedding: {p: {kind: openai, api_key: sk-1}}}\n",
            "embedding_api_key_inline",
        ),
        (
            "version: 1\nproviders: {embedding: {p: {kind: openai}}}\n",
            "embedding_api_key_required",
        ),
        ("version: 1\nproviders: {embedding: {p: {kind: cohere}}}\n", "invalid_embedding_provider"),
        (
            "version: 1\nproviders: {embedding: {p: {kind: mock, base_url: 'https://a:b@c'}}}\n",
            "invalid_embedding_provider",
        ),
        ("version: 1\nstate: {lock: 0}\n", "invalid_cluster_yaml"),
    ],
)
def test_a_mistake_in_the_configuration_has_a_code(tmp_path: Path, text: str, code: str) -> None:
    write_files(tmp_path, {"cluster.yaml": text})

    ended = validated(tmp_path)

    assert ended.code == 1
    assert ended.fields["ok"] is False
    assert code in reported_codes(ended)


def test_an_unknown_field_is_called_one_and_a_near_name_is_offered(tmp_path: Path) -> None:
    write_files(tmp_path, {"cluster.yaml": "version: 1\ngrahps: {}\n"})

    ended = validated(tmp_path)

    assert "unknown field `grahps`; did you mean `graphs`?" in messages(ended)


@pytest.mark.parametrize(
    "field",
    [
        "api_key: sk-secret",
        "base_url: 'https://me:sk-secret@host/v1'",
        "base_url: 'https://host/v1?key=sk-secret'",
    ],
)
def test_a_key_in_the_configuration_never_appears_in_messages(tmp_path: Path, field: str) -> None:
    config = f"version: 1\nproviders: {{embedding: {{p: {{kind: openai, {field}}}}}}}\n"
    write_files(tmp_path, {"cluster.yaml": config})

    ended = validated(tmp_path)

    assert ended.code == 1
    assert "sk-secret" not in ended.out + ended.err


def test_every_mistake_is_reported_at_once(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            "bad.pg": PEOPLE + "edge Knows: Person -> Ghost\n",
            "good.pg": PEOPLE,
            "bad.gq": MISTYPED,
            "policy.yaml": "rules: []\n",
        },
    )
    write_config(
        tmp_path,
        {
            "graphs": {
                "a": {"schema": "bad.pg"},
                "b": {"schema": "good.pg", "queries": "bad.gq"},
                "c": {"schema": "missing.pg"},
            },
            "policies": {"p": {"file": "policy.yaml", "applies_to": ["b"]}},
        },
    )

    ended = validated(tmp_path)

    assert {
        "schema_catalog_error",
        "query_typecheck_error",
        "schema_file_missing",
        "policy_content_invalid",
    } <= set(reported_codes(ended))
    assert "bad.gq:3:15" in messages(ended)


def test_a_schema_that_is_not_a_schema_cannot_be_parsed(tmp_path: Path) -> None:
    write_files(tmp_path, {"people.pg": "node Person {", "queries/q.gq": FIND_PERSON})
    write_config(tmp_path, {"graphs": {"a": {"schema": "people.pg", "queries": "queries"}}})

    ended = validated(tmp_path)

    assert reported_codes(ended) == ["schema_parse_error", "query_typecheck_skipped"]


def test_a_file_that_holds_no_query_cannot_be_parsed(tmp_path: Path) -> None:
    knowledge_cluster(tmp_path)
    write_files(tmp_path, {"queries/broken.gq": "query broken( {"})

    ended = validated(tmp_path)

    assert ended.code == 1
    assert reported_codes(ended) == ["query_parse_error"]
    assert "queries/broken.gq:1:" in messages(ended)


@pytest.mark.parametrize(
    ("queries", "code"),
    [
        ("long/" + "q" * 300, "query_dir_unreadable"),
        ("nul\0byte", "query_file_missing"),
        ("queries/missing.gq", "query_file_missing"),
    ],
    ids=["too long a name", "a name that no system takes", "nothing"],
)
def test_a_missing_path_of_queries_is_reported(tmp_path: Path, queries: str, code: str) -> None:
    write_files(tmp_path, {"people.pg": PEOPLE, "long/notes.txt": ""})
    write_config(tmp_path, {"graphs": {"a": {"schema": "people.pg", "queries": queries}}})

    ended = validated(tmp_path)

    assert ended.code == 1
    assert reported_codes(ended) == [code]


def test_a_cyclic_folder_of_queries_is_reported(tmp_path: Path) -> None:
    knowledge_cluster(tmp_path)
    (tmp_path / "queries/loop.gq").symlink_to("loop.gq")

    assert reported_codes(validated(tmp_path)) == ["query_dir_unreadable"]


def test_two_files_of_a_folder_may_not_declare_one_query(tmp_path: Path) -> None:
    knowledge_cluster(tmp_path)
    write_files(tmp_path, {"queries/again.gq": FIND_PERSON})

    ended = validated(tmp_path)

    assert ended.code == 1
    assert reported_codes(ended) == ["duplicate_query_name"]
    assert "queries/again.gq and in queries/people.gq" in messages(ended)


@pytest.mark.parametrize("command", ["validate", "import", "plan"])
def test_a_query_that_does_not_fit_its_schema_is_refused(tmp_path: Path, command: str) -> None:
    knowledge_cluster(tmp_path)
    write_files(tmp_path, {"queries/broken.gq": MISTYPED})

    ended = invoke_command("cluster", command, "--config", tmp_path, "--json")

    assert ended.code == 1
    assert "query_typecheck_error" in reported_codes(ended)
    assert not (tmp_path / "__cluster").exists()


def test_queries_by_name_register_nothing_else(tmp_path: Path) -> None:
    both = FIND_PERSON + FIND_PERSON.replace("find_person", "other")
    write_files(tmp_path, {"people.pg": PEOPLE, "all.gq": both})
    queries = {"find_person": {"file": "all.gq"}}
    write_config(tmp_path, {"graphs": {"a": {"schema": "people.pg", "queries": queries}}})

    ended = validated(tmp_path)

    digests = ended.fields["resource_digests"]
    assert isinstance(digests, dict)
    assert sorted(digests) == ["graph.a", "query.a.find_person", "schema.a"]


def test_the_name_of_a_query_is_its_key(tmp_path: Path) -> None:
    write_files(tmp_path, {"people.pg": PEOPLE, "all.gq": FIND_PERSON})
    queries = {"find": {"file": "all.gq"}}
    write_config(tmp_path, {"graphs": {"a": {"schema": "people.pg", "queries": queries}}})

    assert reported_codes(validated(tmp_path)) == ["query_key_mismatch"]


def test_a_folder_without_queries_is_a_warning(tmp_path: Path) -> None:
    write_files(tmp_path, {"people.pg": PEOPLE, "queries/notes.txt": ""})
    write_config(tmp_path, {"graphs": {"a": {"schema": "people.pg", "queries": "queries"}}})

    ended = validated(tmp_path)

    assert ended.code == 0
    assert reported_codes(ended) == ["query_dir_empty"]


def test_a_graph_that_no_server_would_serve_is_a_warning(tmp_path: Path) -> None:
    write_files(tmp_path, {"people.pg": PEOPLE})
    write_config(tmp_path, {"graphs": {"my_graph": {"schema": "people.pg"}}})

    ended = validated(tmp_path)

    assert ended.code == 0
    assert reported_codes(ended) == ["graph_id_not_servable"]


def test_a_policy_is_checked_for_what_it_applies_to(tmp_path: Path) -> None:
    knowledge_cluster(tmp_path)
    write_files(tmp_path, {"team.yaml": SERVER_POLICY})

    ended = validated(tmp_path)

    assert reported_codes(ended) == ["policy_content_invalid"]
    assert "server-scoped" in messages(ended)


def test_an_ineffective_policy_rule_is_a_warning(tmp_path: Path) -> None:
    knowledge_cluster(tmp_path)
    vain = TEAM_POLICY.replace("protected_branches: [main]\n", "").replace("any", "protected")
    write_files(tmp_path, {"team.yaml": vain})

    ended = validated(tmp_path)

    assert ended.code == 0
    assert reported_codes(ended) == ["policy_content_warning"]


@pytest.mark.parametrize(
    ("limit", "named"),
    [
        ("Ghost: {where: none}", "type `Ghost`"),
        ("Person: {hide: [salary]}", "property `Person.salary`"),
    ],
)
def test_a_policy_that_limits_what_is_not_there_is_a_warning(
    tmp_path: Path, limit: str, named: str
) -> None:
    knowledge_cluster(tmp_path)
    policy = (
        "version: 1\ngroups: {team: [ann]}\nrules:\n  - id: some\n    allow:\n"
        f"      actors: {{group: team}}\n      actions: [read]\n      types: {{{limit}}}\n"
    )
    write_files(tmp_path, {"team.yaml": policy})

    ended = validated(tmp_path)

    assert ended.code == 0
    assert reported_codes(ended) == ["policy_limit_unknown"]
    assert named in messages(ended)


def test_a_policy_of_a_cluster_is_a_bundle(tmp_path: Path) -> None:
    write_files(
        tmp_path, {"people.pg": PEOPLE, "team.cedar": "permit (principal, action, resource);"}
    )
    write_config(
        tmp_path,
        {
            "graphs": {"a": {"schema": "people.pg"}},
            "policies": {"team": {"file": "team.cedar", "applies_to": ["a"]}},
        },
    )

    assert reported_codes(validated(tmp_path)) == ["policy_content_invalid"]


def test_two_policies_for_one_graph_are_a_warning(tmp_path: Path) -> None:
    knowledge_cluster(tmp_path)
    write_files(tmp_path, {"other.yaml": TEAM_POLICY})
    write_config(
        tmp_path,
        {
            "graphs": {"knowledge": {"schema": "people.pg"}},
            "policies": {
                "team": {"file": "team.yaml", "applies_to": ["knowledge"]},
                "other": {"file": "other.yaml", "applies_to": ["graph.knowledge"]},
            },
        },
    )

    assert reported_codes(validated(tmp_path)) == ["policy_scope_shared"]


def test_a_comment_changes_no_digest(tmp_path: Path) -> None:
    knowledge_cluster(tmp_path)
    before = invoke_command("cluster", "plan", "--config", tmp_path, "--json").fields
    config = (tmp_path / "cluster.yaml").read_text()
    (tmp_path / "cluster.yaml").write_text("# the team's graphs\n" + config.replace("\n", "\n\n"))

    after = invoke_command("cluster", "plan", "--config", tmp_path, "--json").fields

    assert after["desired_revision"] == before["desired_revision"]
    assert "config_digest" in str(after["desired_revision"])


@pytest.mark.parametrize("name", ["nowhere", "n" * 300])
def test_a_folder_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    ended = invoke_command("cluster", "plan", "--config", tmp_path / name, "--json")

    assert ended.code == 1
    assert reported_codes(ended) == ["config_dir_not_found"]


def test_a_file_given_for_a_folder_is_distinguished_from_a_missing_one(tmp_path: Path) -> None:
    write_files(tmp_path, {"cluster.yaml": "version: 1\n"})

    ended = invoke_command("cluster", "plan", "--config", tmp_path / "cluster.yaml", "--json")

    assert reported_codes(ended) == ["config_dir_not_found"]
    assert "it is a file; name the folder that contains cluster.yaml" in messages(ended)


def test_the_error_for_an_empty_folder_says_what_to_create(tmp_path: Path) -> None:
    ended = validated(tmp_path)

    assert reported_codes(ended) == ["cluster_config_read_error"]
    assert messages(ended).endswith("; create it, or name the folder that contains cluster.yaml")


def test_a_misspelt_reference_suggests_the_nearest_name(tmp_path: Path) -> None:
    write_files(tmp_path, {"people.pg": PEOPLE, "team.yaml": TEAM_POLICY})
    write_config(
        tmp_path,
        {
            "providers": {"embedding": {"main": {"kind": "mock"}}},
            "graphs": {"people": {"schema": "people.pg", "embedding_provider": "man"}},
            "policies": {"team": {"file": "team.yaml", "applies_to": ["poeple", "xyz"]}},
        },
    )

    diagnostics = messages(validated(tmp_path)).splitlines()

    assert sorted(each.rpartition("; ")[2] for each in diagnostics) == [
        "declare it under `graphs`",
        "did you mean `main`?",
        "did you mean `people`?",
    ]


def test_a_misspelt_file_suggests_the_nearest_file(tmp_path: Path) -> None:
    write_files(
        tmp_path, {"schemas/people.pg": PEOPLE, "queries/q.gq": FIND_PERSON, "team.yaml": ""}
    )
    write_config(
        tmp_path,
        {
            "graphs": {"people": {"schema": "schemas/peple.pg", "queries": "querys"}},
            "policies": {
                "a": {"file": "teem.yaml", "applies_to": ["people"]},
                "b": {"file": "nowhere/all.yaml", "applies_to": ["cluster"]},
            },
        },
    )

    diagnostics = messages(validated(tmp_path)).splitlines()

    assert [each.partition("no such file or directory")[2] for each in diagnostics] == [
        "; did you mean `schemas/people.pg`?",
        "; did you mean `queries`?",
        "; did you mean `team.yaml`?",
        "",
    ]


def test_an_unclosed_quote_is_reported_where_it_begins(tmp_path: Path) -> None:
    write_files(tmp_path, {"cluster.yaml": 'version: 1\nmetadata: {name: "crm}\ngraphs: {}\n'})

    ended = validated(tmp_path)

    assert reported_codes(ended) == ["invalid_cluster_yaml"]
    assert "which begins in line 2" in messages(ended)


def test_a_configuration_over_the_size_limit_is_not_read(tmp_path: Path) -> None:
    write_files(tmp_path, {"cluster.yaml": "version: 1\n" + "# filler\n" * 150_000})

    assert reported_codes(validated(tmp_path)) == ["cluster_config_read_error"]


def test_people_read_what_is_wrong_a_line_each(tmp_path: Path) -> None:
    write_files(tmp_path, {"cluster.yaml": "version: 1\ngrahps: {}\n"})

    ended = invoke_command("cluster", "validate", "--config", tmp_path)

    assert ended.code == 1
    assert ended.out == (
        "ERROR  invalid_cluster_yaml grahps: unknown field `grahps`; did you mean `graphs`?\n"
    )
    assert ended.err.startswith("Error: `cluster validate` failed")
