"""`omnigraph query`: which text runs, with which values, and how its rows are printed."""

import csv
import io
import json
from pathlib import Path

import pytest
from pyarrow import parquet

import omnigraph
from omnigraph.cli.output import measure
from tests.support.clusters import applied_cluster, knowledge_cluster
from tests.support.commands import invoke_command, run_command
from tests.support.graphs import build_graph, node
from tests.support.shells import on_a_terminal
from tests.support.stored_people import ALL, store_people, write_queries, write_text


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store_people(tmp_path_factory.mktemp("query"))


def test_a_query_of_a_file_is_picked_by_name(store: Path, tmp_path: Path) -> None:
    queries = write_queries(tmp_path)

    ended = run_command(
        *("query", "get_person", "--query", queries, "--store", store, "--json"),
        *("--params", '{"name": "Alice"}'),
    )

    assert ended.code == 0, ended.err
    assert ended.err == ""
    assert ended.out == json.dumps(ended.body, indent=2) + "\n"
    assert {**ended.fields, "commit_id": ""} == {
        "query_name": "get_person",
        "target": {"branch": "main", "snapshot": None},
        "row_count": 1,
        "columns": ["p.name", "p.age"],
        "commit_id": "",
        "rows": [{"p.name": "Alice", "p.age": 30}],
    }


def test_a_file_of_several_queries_needs_a_name(store: Path, tmp_path: Path) -> None:
    ended = invoke_command("query", "--query", write_queries(tmp_path), "--store", store)

    assert ended.code == 1
    assert ended.out == ""
    assert "multiple queries: get_person, all_people" in ended.err


@pytest.mark.parametrize("command", ["query", "explain", "mutate"])
def test_a_mistake_in_a_file_is_reported_with_its_place(
    command: str, store: Path, tmp_path: Path
) -> None:
    wrong = "\n" + ALL.replace("Person", "Persn")
    path = write_text(tmp_path, "wrong.gq", wrong)

    of_file = invoke_command(command, "--query", path, "--store", store)
    of_pipe = invoke_command(command, "--query", "-", "--store", store, stdin=wrong)
    of_flag = invoke_command(command, "-e", wrong, "--store", store)

    assert {of_file.code, of_pipe.code, of_flag.code} == {1}
    assert f"--> {path}:2:" in of_file.err
    assert "--> <stdin>:2:" in of_pipe.err
    assert str(path) not in of_flag.err


def test_an_analyzed_plan_shows_what_each_step_took(store: Path) -> None:
    ended = invoke_command("explain", "-e", ALL, "--analyze", "--store", store)
    plain = invoke_command("explain", "-e", ALL, "--store", store)

    assert ended.code == 0
    assert "  result: " in ended.out
    assert "  result: " not in plain.out


def test_an_empty_text_is_refused(store: Path) -> None:
    ended = invoke_command("query", "-e", " ", "--store", store)

    assert ended.code == 1
    assert "must not be empty" in ended.err


def test_nothing_to_run_is_refused(store: Path) -> None:
    ended = invoke_command("query", "--store", store)

    assert ended.code == 1
    assert "no query given" in ended.err


def test_a_stored_query_needs_a_server_even_before_the_graph_is_looked_for(tmp_path: Path) -> None:
    ended = invoke_command("query", "find_people", "--store", tmp_path / "nowhere")

    assert ended.code == 1
    assert "needs a server" in ended.err


@pytest.mark.parametrize(
    "flags",
    [
        ["-e", ALL, "--query", "q.gq"],
        ["-e", ALL, "--params", "{}", "--params-file", "p.json"],
        ["-e", ALL, "--branch", "main", "--snapshot", "01C"],
        ["-e", ALL, "--json", "--format", "csv"],
        ["--query", "-", "--params-file", "-"],
        ["-e", ALL, "--format", "xml"],
    ],
    ids=lambda flags: " ".join(each for each in flags if each.startswith("-")),
)
def test_flags_that_exclude_each_other_are_a_usage_error(flags: list[str], store: Path) -> None:
    ended = invoke_command("query", *flags, "--store", store)

    assert ended.code == 2
    assert ended.out == ""


def test_a_text_may_come_through_a_pipe_and_values_from_a_file(store: Path, tmp_path: Path) -> None:
    values = write_text(tmp_path, "values.json", '{"name": "Bob"}')
    text = "query q($name: String) { match { $p: Person { name: $name } } return { $p.age } }"

    ended = invoke_command(
        *("query", "--query", "-", "--params-file", values, "--store", store, "--json"),
        stdin=text,
    )

    assert ended.fields["rows"] == [{"p.age": 25}]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("{", "--params is not valid JSON"),
        ("[1]", "a JSON object"),
        ('{"x": NaN}', "NaN is not a JSON number"),
    ],
)
def test_values_that_are_no_object_are_refused(given: str, says: str, store: Path) -> None:
    ended = invoke_command("query", "-e", ALL, "--params", given, "--store", store)

    assert ended.code == 1
    assert says in ended.err


def test_a_table_is_what_people_get(store: Path, tmp_path: Path) -> None:
    ended = invoke_command(
        "query", "all_people", "--query", write_queries(tmp_path), "--store", store
    )

    assert ended.out.splitlines() == [
        "4 rows from branch main via all_people",
        "p.name  | p.age",
        "--------+------",
        "Alice   | 30",
        "Bob     | 25",
        "Charlie | 35",
        "Diana   | 28",
    ]


def test_scripts_get_csv_and_lines_of_json(store: Path, tmp_path: Path) -> None:
    words = ("query", "all_people", "--query", write_queries(tmp_path), "--store", store)

    as_csv = invoke_command(*words, "--format", "csv")
    as_lines = invoke_command(*words, "--format", "jsonl")

    assert next(csv.reader(io.StringIO(as_csv.out))) == ["p.name", "p.age"]
    assert as_csv.out.splitlines()[1] == "Alice,30"
    described, first, *_ = map(json.loads, as_lines.out.splitlines())
    assert (described["kind"], described["row_count"]) == ("metadata", 4)
    assert first == {"p.name": "Alice", "p.age": 30}


def test_the_configuration_decides_what_no_flag_does(store: Path, tmp_path: Path) -> None:
    write_text(tmp_path, "config.yaml", "defaults: { output: csv, table_max_column_width: 9 }\n")
    words = ("query", "-e", ALL.replace("$p.name }", '"0123456789" as text }', 1), "--store", store)

    by_default = invoke_command(*words, home=tmp_path)
    by_flag = invoke_command(*words, "--format", "table", home=tmp_path)

    assert by_default.out.splitlines()[:2] == ["text", "0123456789"]
    assert by_flag.out.splitlines()[-1] == "01234567…"


def test_a_long_cell_is_wrapped_where_the_configuration_says_so(
    store: Path, tmp_path: Path
) -> None:
    layout = "{ table_max_column_width: 8, table_cell_layout: wrap }"
    write_text(tmp_path, "config.yaml", f"defaults: {layout}\n")
    text = 'query q() { match { $p: Person { name: "Bob" } } return { "0123456789" as text } }'

    ended = invoke_command("query", "-e", text, "--store", store, home=tmp_path)

    assert ended.out.splitlines()[1:] == ["text", "--------", "01234567", "89"]


def test_an_earlier_commit_is_read_by_its_id(tmp_path: Path) -> None:
    store = store_people(tmp_path)
    with omnigraph.open(store) as graph:
        before = graph.head()
        graph.mutate('query add() { insert Person { name: "Eve" } }')

    ended = invoke_command("query", "-e", ALL, "--store", store, "--snapshot", before, "--json")

    assert ended.fields["target"] == {"branch": None, "snapshot": before}
    assert (ended.fields["row_count"], ended.fields["commit_id"]) == (4, before)


def test_rows_go_to_a_file_in_the_format_of_its_name(store: Path, tmp_path: Path) -> None:
    columns, texts = tmp_path / "people.parquet", tmp_path / "people.csv"

    first = invoke_command("query", "-e", ALL, "--store", store, "--out", columns)
    second = invoke_command("query", "-e", ALL, "--store", store, "--out", texts)

    assert (first.out, second.out) == ("", "")
    assert f"wrote 4 rows to {columns}" in first.err
    assert parquet.read_table(columns).num_rows == 4
    assert texts.read_text(encoding="utf-8").splitlines()[:2] == ["p.name", "Alice"]


@pytest.mark.parametrize("name", ["people.xlsx", "people.txt", "people.CSVX"])
def test_a_file_that_rows_cannot_be_written_to_is_refused_before_the_query_runs(
    store: Path, tmp_path: Path, name: str
) -> None:
    wrong = "query q() { match { $x: NoSuchType } return { $x.name } }"

    ended = invoke_command("query", "-e", wrong, "--store", store, "--out", tmp_path / name)

    assert (ended.code, ended.out) == (1, "")
    assert f"'{Path(name).suffix.lower()}'" in ended.err
    assert ".csv and .tsv" in ended.err
    assert "NoSuchType" not in ended.err
    assert not (tmp_path / name).exists()


def test_a_home_folder_is_meant_by_a_tilde_in_every_file_that_is_named(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "all.gq").write_text(ALL, encoding="utf-8")
    (tmp_path / "params.json").write_text("{}", encoding="utf-8")

    ended = invoke_command(
        *("query", "--query=~/all.gq", "--params-file=~/params.json", "--out=~/found.csv"),
        *("--store", store),
    )

    assert ended.code == 0, ended.err
    assert (tmp_path / "found.csv").read_text(encoding="utf-8").startswith("p.name")


def test_a_home_folder_is_meant_by_a_tilde_in_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    store_people(tmp_path / "made")
    applied_cluster(knowledge_cluster(tmp_path / "cluster"))
    (tmp_path / "rows.jsonl").write_text('{"type":"Person","data":{"name":"Zoe"}}\n')
    store = ("--store", "~/made/graph")

    ended = [
        invoke_command("load", "~/made/graph", "--data", "~/rows.jsonl", "--mode", "append"),
        invoke_command("log", "~/made/graph", "--svg", "~/log.svg"),
        invoke_command("queries", "list", "--cluster", "~/cluster"),
        invoke_command("export", *store, "--out", "~/exported"),
    ]

    assert [each.code for each in ended] == [0] * len(ended), [each.err for each in ended]
    assert (tmp_path / "log.svg").is_file()
    assert (tmp_path / "exported" / "Person.ndjson").is_file()


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("query", ()),
        ("query", ("-e", ALL)),
        ("mutate", ()),
        ("mutate", ("-e", ALL)),
        ("explain", ("-e", ALL)),
    ],
)
def test_a_graph_in_the_place_of_a_query_name_gets_advice(
    store: Path, command: str, options: tuple[str, ...]
) -> None:
    ended = invoke_command(command, str(store), *options)

    assert (ended.code, ended.out) == (1, "")
    assert f"--store {store}" in ended.err


def test_a_stored_text_cannot_command_the_terminal(tmp_path: Path) -> None:
    hostile = "\x1b]0;owned\x07"
    build_graph(tmp_path / "g", "node N { name: String @key }", node("N", name=hostile)).close()

    ended = invoke_command(
        "query", "-e", "query q() { match { $n: N } return { $n.name } }", "--store", tmp_path / "g"
    )

    assert ended.code == 0, ended.err
    assert "\x1b" not in ended.out
    assert "\\u001b]0;owned\\u0007" in ended.out


def test_a_table_fits_its_terminal_and_is_not_cut_in_a_pipe(tmp_path: Path) -> None:
    schema = "node N { name: String @key  text: String  other: String }"
    long = node("N", name="n", text="漢字" * 60, other="y" * 90)
    build_graph(tmp_path / "g", schema, long).close()
    text = "query q() { match { $n: N } return { $n.name, $n.text as t, $n.other as o } }"
    words = ("query", "-e", text, "--store", tmp_path / "g")

    with on_a_terminal(*words, home=None, env={}) as screen:
        code, shown = screen.wait_for_end()
    piped = run_command(*words)

    assert code == 0, shown
    assert max(map(measure, shown.splitlines())) == 100
    assert piped.out.splitlines()[-1].endswith(f"| {'y' * 79}…")


def test_a_mutation_is_not_run_by_query(store: Path) -> None:
    ended = invoke_command(
        "query", "-e", 'query add() { insert Person { name: "Eve" } }', "--store", store
    )

    assert ended.code == 1
    assert ended.out == ""
