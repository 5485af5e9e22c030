"""Typical schemas and queries, and generated ones of any size."""

SCHEMA = """\
interface Named {
  name: String @key
}

node Person implements Named {
  age: I32?
  born: Date?
  bio: String? @index
  status: enum(active, away, gone)
  tags: [String]
  embedding: Vector(256)? @embed(bio)
  @range(age, 0..150)
}

node Company implements Named {
  founded: Date?
  size: U64?
}

edge Knows: Person -> Person {
  since: Date?
}
edge WorksAt: Person -> Company @card(0..1) {
  role: String?
}
"""

QUERY = """\
query colleagues($name: String, $since: Date) {
  match {
    $p: Person { name: $name }
    $p worksAt $c
    $f worksAt $c
    $p $k: knows $f
    $k.since >= $since and $f.status != "gone"
    not { $f knows $_ }
  }
  return { $f.name, $f.age, $c.name as company }
  order { $f.name } limit 20
}
"""

LINES_PER_TYPE = 10


def schema_of(line_count: int) -> str:
    """A schema with this many lines: node types of several properties, each with an edge type."""
    return "".join(map(_declare, range(line_count // LINES_PER_TYPE)))


def queries_of(query_count: int) -> str:
    """A file of this many typical queries with distinct names."""
    return "\n".join(QUERY.replace("colleagues", f"colleagues_{i}") for i in range(query_count))


def _declare(number: int) -> str:
    return f"""\
node Thing{number} @description("One of many things") {{
  name: String @key
  age: I32? @index
  born: Date?
  bio: String?
  status: enum(active, away, gone)
  tags: [String]
  @range(age, 0..150)
}}
edge Owns{number}: Thing{number} -> Thing{number // 2} @card(0..1) {{ since: Date? }}
"""
