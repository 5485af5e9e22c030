// The main routes of a server, through a client that was generated from its own document.
//
// Everything here is typed by that document: what it gets wrong does not compile. Needs the server's
// address and two tokens, of a caller with every permission and of one without any.
import assert from 'node:assert/strict';

import {
  clusterCreateBranch,
  clusterDeleteBranch,
  clusterExport,
  clusterGetCommit,
  clusterGetSchema,
  clusterGetSnapshot,
  clusterIngest,
  clusterInvokeQuery,
  clusterListBranches,
  clusterListCommits,
  clusterListQueries,
  clusterLoad,
  clusterMergeBranches,
  clusterMutate,
  clusterQuery,
  health,
  listGraphs,
} from './client';
import { client } from './client/client.gen';
import type { ErrorOutput, MutateRequest, ReadOutput } from './client';

const [baseUrl, token, wrongToken] = process.argv.slice(2);
const path = { graph_id: 'default' };
const FIND = 'query find($name: String) { match { $p: Person { name: $name } } return { $p.name, $p.age } }';
const ADD = 'query add($name: String, $age: I32) { insert Person { name: $name, age: $age } }';

function person(name: string, age: number): string {
  return JSON.stringify({ type: 'Person', data: { name, age } }) + '\n';
}

async function find(name: string, branch: string): Promise<ReadOutput> {
  const { data } = await clusterQuery({
    path,
    body: { query: FIND, params: { name }, branch },
    throwOnError: true,
  });
  return data;
}

async function isHealthyAndListed(): Promise<void> {
  const { data } = await health({ throwOnError: true });
  assert.equal(data.status, 'ok');
  const listed = await listGraphs({ throwOnError: true });
  assert.deepEqual(listed.data.graphs.map((graph) => graph.graph_id), ['default']);
  const schema = await clusterGetSchema({ path, throwOnError: true });
  assert.match(schema.data.schema_source, /node Person/);
  const snapshot = await clusterGetSnapshot({ path, query: { branch: 'main' }, throwOnError: true });
  assert.ok(snapshot.data.tables.some((table) => table.table_key === 'node:Person'));
}

async function readsAndWrites(): Promise<void> {
  const found = await find('Alice', 'main');
  assert.equal(found.row_count, 1);
  assert.deepEqual(found.columns, ['p.name', 'p.age']);
  assert.deepEqual(found.rows, [{ 'p.name': 'Alice', 'p.age': 30 }]);

  const body: MutateRequest = { query: ADD, params: { name: 'Eve', age: 41 } };
  const headers = { 'Idempotency-Key': 'only-once' };
  const first = await clusterMutate({ path, body, headers, throwOnError: true });
  const again = await clusterMutate({ path, body, headers, throwOnError: true });
  assert.equal(first.data.affected_nodes, 1);
  assert.equal(first.data.actor_id, 'ann');
  assert.equal(again.data.commit_id, first.data.commit_id);

  const commits = await clusterListCommits({ path, query: { branch: 'main' }, throwOnError: true });
  const last = commits.data.commits.at(-1);
  assert.equal(last?.graph_commit_id, first.data.commit_id);
  const commit = await clusterGetCommit({
    path: { ...path, commit_id: String(first.data.commit_id) },
    throwOnError: true,
  });
  assert.equal(commit.data.actor_id, 'ann');
}

async function branches(): Promise<void> {
  const name = 'team/a';
  const made = await clusterCreateBranch({ path, body: { name, from: 'main' }, throwOnError: true });
  assert.equal(made.data.name, name);
  const loaded = await clusterLoad({
    path,
    body: { branch: name, data: person('Zoe', 33), mode: 'merge' },
    throwOnError: true,
  });
  assert.ok('branch_created' in loaded.data);
  assert.equal(loaded.data.branch_created, false);
  assert.equal((await find('Zoe', name)).row_count, 1);
  assert.equal((await find('Zoe', 'main')).row_count, 0);

  const body = { source: name, target: 'main' };
  const merged = await clusterMergeBranches({ path, body, throwOnError: true });
  assert.equal(merged.data.outcome, 'fast_forward');
  const again = await clusterMergeBranches({ path, body, throwOnError: true });
  assert.equal(again.data.outcome, 'already_up_to_date');
  assert.equal((await find('Zoe', 'main')).row_count, 1);

  const deleted = await clusterDeleteBranch({ path: { ...path, branch: name }, throwOnError: true });
  assert.equal(deleted.data.name, name);
  const ingested = await clusterIngest({
    path,
    body: { branch: 'review', from: 'main', data: person('Yan', 5) },
    throwOnError: true,
  });
  assert.ok('branch_created' in ingested.data);
  assert.equal(ingested.data.branch_created, true);
  const listed = await clusterListBranches({ path, throwOnError: true });
  assert.deepEqual(listed.data.branches, ['main', 'review']);
}

async function exporting(): Promise<void> {
  const { data } = await clusterExport({ path, body: { type_names: ['Company'] }, throwOnError: true });
  assert.ok((data as unknown) instanceof Blob);
  const text = await (data as unknown as Blob).text();
  const names = text.trim().split('\n').map((line) => JSON.parse(line).data.name);
  assert.deepEqual(names, ['Acme', 'Globex']);
}

async function storedQueries(): Promise<void> {
  const listed = await clusterListQueries({ path, throwOnError: true });
  const names = listed.data.queries.map((query) => query.name);
  assert.deepEqual(names, ['all_people', 'get_person']);
  const invoked = await clusterInvokeQuery({
    path: { ...path, name: 'get_person' },
    body: { params: { name: 'Bob' } },
    throwOnError: true,
  });
  assert.ok('rows' in invoked.data);
  assert.deepEqual(invoked.data.rows, [{ 'p.name': 'Bob', 'p.age': 25 }]);
  const bare = await clusterInvokeQuery({ path: { ...path, name: 'all_people' }, throwOnError: true });
  assert.ok('rows' in bare.data && bare.data.row_count === bare.data.rows.length);
}

function isConflict(error: ErrorOutput | undefined): boolean {
  return error?.code === 'conflict';
}

async function errors(): Promise<void> {
  const twice = await clusterCreateBranch({ path, body: { name: 'review' } });
  assert.equal(twice.response.status, 409);
  assert.ok(isConflict(twice.error));

  await clusterMutate({ path, body: { query: ADD, params: { name: 'Eve', age: 42 } }, throwOnError: true });
  const there = { query: ADD, params: { name: 'Eve', age: 43 }, branch: 'review' };
  await clusterMutate({ path, body: there, throwOnError: true });
  const apart = await clusterMergeBranches({ path, body: { source: 'review' } });
  assert.equal(apart.response.status, 409);
  assert.equal(apart.error?.merge_conflicts?.[0].table_key, 'node:Person');
  assert.equal(apart.error?.merge_conflicts?.[0].row_id, 'Eve');
  assert.equal(apart.error?.merge_conflicts?.[0].kind, 'divergent_update');

  const headers = { 'Omnigraph-If-Graph-Commit': '01ARZ3NDEKTSV4RRFFQ69G5FAV' };
  const late = await clusterMutate({ path, headers, body: { query: ADD, params: { name: 'x', age: 1 } } });
  assert.equal(late.response.status, 412);
  assert.equal(late.error?.code, 'precondition_failed');

  client.setConfig({ auth: () => wrongToken });
  const refused = await clusterListBranches({ path });
  assert.equal(refused.response.status, 401);
  assert.equal(refused.error?.code, 'unauthorized');
  await assert.rejects(
    clusterListBranches({ path, throwOnError: true }),
    (thrown) => (thrown as ErrorOutput).code === 'unauthorized',
  );
}

async function main(): Promise<void> {
  client.setConfig({ baseUrl, auth: () => token });
  for (const story of [isHealthyAndListed, readsAndWrites, branches, exporting, storedQueries, errors]) {
    await story();
    process.stdout.write(`${story.name}: done\n`);
  }
}

main().catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? error.stack : JSON.stringify(error)}\n`);
  process.exitCode = 1;
});
