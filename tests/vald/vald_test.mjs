// Vald's official client asks hmann: straight, and through a reference gateway over two shards.
//   HMANN_BINARY_DIR=build/release NODE_MODULES=... node --test tests/vald/vald_test.mjs
import { strict as assert } from "node:assert";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { Gateway, grpc, idOf, made, payload, require, results, run as runWhile, searching, searchingId, serve, services, until, vectorOf } from "./vald.mjs";

const root = path.resolve(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname), "../..");
const hmann = path.join(path.resolve(process.env.HMANN_BINARY_DIR), "bin", "hmann");
const folder = mkdtempSync(path.join(tmpdir(), "hmann_vald_"));
const dim = 128, running = new Set();

function run(...args) {
  const ran = spawnSync(hmann, args, { encoding: "utf8" });
  assert.equal(ran.status, 0, `hmann ${args.join(" ")}: ${ran.stderr}`);
}
async function started(...args) {
  const child = await serve(hmann, ...args);
  running.add(child);
  return child;
}
after(() => {
  for (const child of running) child.kill("SIGKILL"), child.agent.close();
  rmSync(folder, { recursive: true });
});

const rowsOf = (name) => {
  const bytes = readFileSync(path.join(root, "datasets/sample", name));
  return Array.from({ length: bytes.readUInt32LE(0) }, (_, i) => bytes.subarray(8 + i * dim, 8 + (i + 1) * dim));
};
const base = rowsOf("base.u8bin"), queries = rowsOf("query.u8bin").slice(0, 50).map((row) => [...row]);
const squared = (a, b) => a.reduce((sum, x, i) => sum + (x - b[i]) ** 2, 0);
/** The distance of each vector to a query, on Vald's scale. */
const distance = (row, query) => Math.fround(Math.sqrt(squared(row, query)));
const kFirst = 2n ** 40n;

function vectorFile(name, rows) {
  const head = Buffer.alloc(8);
  head.writeUInt32LE(rows.length, 0);
  head.writeUInt32LE(dim, 4);
  writeFileSync(path.join(folder, name), Buffer.concat([head, ...rows]));
  return path.join(folder, name);
}

test("names and numbers of fields are those of Vald", () => {
  const protobuf = require("protobufjs");
  const ours = new protobuf.Root();
  ours.resolvePath = (_, target) => path.join(root, "proto", target);
  ours.loadSync(["vald/payload.proto", "vald/vald.proto", "vald/agent.proto", "vald/discoverer.proto"], { keepCase: true });
  // v1.8 has these, the client of v1.7 has not; Streamed stands for several messages.
  const later = ["Search.Config.edge_size", "Object.TimestampRequest", "Object.Timestamp", "Object.Vector.timestamp", "Object.List", "Streamed",
    "Info.Index.Detail", "Info.Index.Property", "Info.Index.PropertyDetail"];
  const wireTypes = { string: 2, bytes: 2, float: 5, double: 1, bool: 0, uint32: 0, int32: 0, int64: 0, uint64: 0 };
  const values = { string: "x", float: 1.5, bool: true, uint32: 7, int32: 7, int64: 7 };
  let fields = 0;
  const compare = (type, theirs, name) => {
    if (later.includes(name)) return;
    assert.ok(theirs, `Vald has no message ${name}`);
    for (const field of type.fieldsArray ?? []) {
      if (later.includes(`${name}.${field.name}`)) continue;
      field.resolve();
      const camel = field.name.split("_").map((word) => word[0].toUpperCase() + word.slice(1).toLowerCase()).join("");
      const setter = `set${camel}${field.repeated ? "List" : ""}`, message = new theirs();
      assert.ok(message[setter], `Vald's ${name} has no ${setter}`);
      let value = values[field.type];
      if (field.resolvedType) {
        const inner = field.resolvedType.fullName.replace(".payload.v1.", "").split(".").reduce((at, part) => at[part], payload);
        value = new inner();
      }
      message[setter](field.repeated ? [value] : value);
      const bytes = message.serializeBinary();
      assert.equal(bytes[0] >> 3, field.id, `${name}.${field.name}`);
      assert.equal(bytes[0] & 7, field.repeated && !field.resolvedType && field.type !== "string" ? 2 : (wireTypes[field.type] ?? 2), `${name}.${field.name}`);
      ++fields;
    }
    for (const inner of type.nestedArray ?? []) if (inner.fields || inner.nested) compare(inner, theirs?.[inner.name], name ? `${name}.${inner.name}` : inner.name);
  };
  compare(ours.lookup("payload.v1"), payload, "");
  assert.ok(fields > 45, `${fields} fields were compared`);

  const laterCalls = ["GetTimestamp", "StreamListObject"];
  for (const [name, service] of Object.entries(services)) {
    const mine = ours.lookupService(name === "Agent" ? "core.v1.Agent" : `vald.v1.${name}`);
    for (const method of mine.methodsArray) {
      if (laterCalls.includes(method.name)) continue;
      const theirs = Object.values(service).find((one) => one.path === `/${mine.fullName.slice(1)}/${method.name}`);
      assert.ok(theirs, `Vald has no ${mine.fullName}.${method.name}`);
      assert.equal(theirs.requestStream, method.requestStream ?? false, method.name);
      assert.equal(theirs.responseStream, method.responseStream ?? false, method.name);
      const typed = (type) => type.replace("payload.v1.", "").split(".").reduce((at, part) => at[part], payload);
      assert.equal(theirs.requestType, typed(method.requestType), method.name);
      if (method.responseType !== "payload.v1.Streamed") {
        assert.equal(theirs.responseType, typed(method.responseType), method.name);
        continue;
      }
      const [inner, setter] = [[payload.Search.Response, "setResponse"], [payload.Object.Vector, "setVector"], [payload.Object.Location, "setLocation"]]
        .find(([, set]) => new theirs.responseType()[set]);
      const message = new theirs.responseType();
      message[setter](new inner());
      assert.equal(message.serializeBinary()[0], (1 << 3) | 2, method.name);
      const failed = new theirs.responseType();
      failed.setStatus(new (require("vald-client-node/src/google/rpc/status_pb.js").Status)());
      assert.equal(failed.serializeBinary()[0], (2 << 3) | 2, method.name);
    }
  }
});

for (const dtype of ["u8", "f32"]) {
  test(`every call, of an index of ${dtype}`, async () => {
    const index = path.join(folder, `${dtype}.hmann`);
    const rows = base.slice(0, 3000).map((row) => (dtype === "u8" ? row : Buffer.from(Float32Array.from(row).buffer)));
    run("build", "--base", vectorFile(`rows.${dtype === "u8" ? "u8bin" : "fbin"}`, rows), "--out", index);
    const { agent } = await started(index);
    const config = { num: 10, radius: -1, epsilon: 0.1, timeout: 3e9, requestId: "r1" };
    const alone = [];
    for (const query of queries) {
      const response = await agent.call("Search", "search", searching(query, config));
      assert.equal(response.getRequestId(), "r1");
      const found = results(response);
      assert.equal(found.length, 10);
      for (const [id, far] of found) assert.equal(far, distance(base[Number(id)], query));
      alone.push(found);
    }
    const requestsList = queries.map((query) => searching(query, config));
    const many = await agent.call("Search", "multiSearch", made(payload.Search.MultiRequest, { requestsList }));
    assert.deepEqual(many.getResponsesList().map(results), alone);
    const streamed = await agent.stream("Search", "streamSearch", queries.map((query, i) => searching(query, { ...config, requestId: String(i) })));
    assert.equal(streamed.length, queries.length);
    for (const answer of streamed) assert.deepEqual(results(answer.getResponse()), alone[Number(answer.getResponse().getRequestId())]);
    const byId = await agent.call("Search", "searchByID", searchingId("17", config));
    assert.equal(results(byId)[0][1], 0);
    const byIds = await agent.call("Search", "multiSearchByID", made(payload.Search.MultiIDRequest, { requestsList: [searchingId("17", config)] }));
    assert.deepEqual(results(byIds.getResponsesList()[0]), results(byId));
    const byStream = await agent.stream("Search", "streamSearchByID", [searchingId("17", config), searchingId("3000", config)]);
    assert.deepEqual(byStream.map((one) => one.getStatus()?.getCode() ?? 0).sort(), [0, grpc.status.NOT_FOUND]);

    assert.equal((await agent.call("Object", "exists", idOf("2999"))).getId(), "2999");
    const stored = await agent.call("Object", "getObject", made(payload.Object.VectorRequest, { id: idOf("5") }));
    assert.deepEqual(stored.getVectorList(), [...base[5]]);
    const stream = await agent.stream("Object", "streamGetObject", ["1", "2"].map((id) => made(payload.Object.VectorRequest, { id: idOf(id) })));
    assert.deepEqual(stream.map((one) => one.getVector().getId()).sort(), ["1", "2"]);
    assert.equal((await agent.call("Agent", "indexInfo", new payload.Empty())).getStored(), 3000);
    for (const method of ["createIndex", "saveIndex", "createAndSaveIndex"])
      assert.equal(await agent.code("Agent", method, method === "saveIndex" ? new payload.Empty() : new payload.Control.CreateIndexRequest()), 0);

    const bad = async (code, method, request) => assert.equal(await agent.code("Search", method, request), code);
    const invalid = grpc.status.INVALID_ARGUMENT;
    await bad(invalid, "search", searching([1, 2], config));
    for (const num of [0, 10_001, 4e9]) await bad(invalid, "search", searching(queries[0], { num }));
    await bad(invalid, "search", searching(queries[0], { num: 1, timeout: -1 }));
    await bad(invalid, "search", searching(queries[0], { num: 1, radius: NaN }));
    await bad(invalid, "search", searching([NaN, ...queries[0].slice(1)], { num: 1 }));
    await bad(dtype === "u8" ? invalid : 0, "search", searching([0.5, ...queries[0].slice(1)], { num: 1 }));
    await bad(invalid, "searchByID", searchingId("", config));
    for (const id of ["007", "1e3", "12345678901234567890", "3000"]) await bad(grpc.status.NOT_FOUND, "searchByID", searchingId(id, config));
    const write = made(payload.Insert.Request, { vector: vectorOf("1", queries[0]) });
    assert.equal(await agent.code("Insert", "insert", write), grpc.status.UNIMPLEMENTED);
    assert.equal(await agent.code("Search", "linearSearch", searching(queries[0], config)), grpc.status.UNIMPLEMENTED);
  });
}

test("two shards behind a gateway, with 64-bit labels", async (t) => {
  const agents = [];
  for (const [s, rows] of [base.slice(0, 5000), base.slice(5000)].entries()) {
    const labels = path.join(folder, `labels${s}`);
    writeFileSync(labels, BigUint64Array.from(rows, (_, i) => kFirst + BigInt(s * 5000 + i)));
    run("build", "--base", vectorFile(`shard${s}.u8bin`, rows), "--labels", labels, "--out", path.join(folder, `shard${s}.hmann`));
    agents.push(await started(path.join(folder, `shard${s}.hmann`)));
  }
  const gateway = new Gateway(agents.map((one) => one.agent)), caller = await gateway.start();
  t.after(() => { gateway.stop(); caller.close(); });
  let right = 0;
  for (const query of queries) {
    const found = results(await caller.call("Search", "search", searching(query, { num: 10 })));
    assert.equal(found.length, 10);
    assert.equal(new Set(found.map(([id]) => id)).size, 10);
    const truth = base.map((row) => distance(row, query)).sort((a, b) => a - b);
    for (const [i, [id, far]] of found.entries()) {
      assert.equal(far, distance(base[Number(BigInt(id) - kFirst)], query));
      right += far <= truth[9] ? 1 : 0;
      assert.ok(i === 0 || far >= found[i - 1][1], "ascending");
    }
  }
  assert.ok(right >= 10 * queries.length * 0.95, `${right} of ${10 * queries.length} true neighbors`);
  const id = String(kFirst + 7000n);
  assert.equal(results(await caller.call("Search", "searchByID", searchingId(id, { num: 3 })))[0][1], 0);
  assert.deepEqual((await caller.call("Object", "getObject", made(payload.Object.VectorRequest, { id: idOf(id) }))).getVectorList(), [...base[7000]]);
  assert.equal(await caller.code("Object", "exists", idOf("7000")), grpc.status.NOT_FOUND);

  // The probe sees a shard that is dead, which the gateway hides.
  const addresses = agents.map((one) => one.address);
  const probe = (...args) => spawnSync(hmann, ["admin", "shards", ...args], { encoding: "utf8" });
  assert.equal(probe(addresses.join(","), "--expect", "10000").status, 0);
  // A gateway that lost an agent which is up: the first, the last, or all but one of three.
  const through = (agent, address) => runWhile(hmann, "admin", "shards", agent, "--gateway", address);
  const third = await started(path.join(folder, "u8.hmann"));
  for (const [asked, lost] of [[[0, 1], undefined], [[1], 0], [[0], 1]]) {
    const partial = new Gateway(asked.map((i) => agents[i].agent)), at = await partial.start();
    const told = await through(addresses.join(","), partial.address);
    assert.equal(told.status, lost === undefined ? 0 : 1, told.stderr);
    if (lost !== undefined) assert.match(told.stderr, new RegExp(`the gateway does not ask ${addresses[lost]}`));
    partial.stop();
    at.close();
  }
  const alone = new Gateway([agents[0].agent]), aloneAt = await alone.start();
  const manyLost = await through(third.address, alone.address);
  assert.equal(manyLost.status, 1);
  assert.match(manyLost.stderr, new RegExp(`the gateway does not ask ${third.address}`));
  alone.stop();
  aloneAt.close();
  assert.equal((await through(third.address, "127.0.0.1:1")).status, 75, "no gateway is there");
  const fewer = probe(addresses.join(","), "--expect", "10001");
  assert.equal(fewer.status, 1);
  assert.match(fewer.stderr, /10000 vectors found, expected 10001/);
  agents[1].kill("SIGKILL");
  await agents[1].ended;
  assert.equal(results(await caller.call("Search", "search", searching(queries[0], { num: 10 }))).length, 10, "half of the truth, and no error");
  assert.equal(probe(addresses.join(","), "--expect", "10000").status, 75, "it may be back later");
  const other = await started(path.join(folder, "f32.hmann"));
  const unlike = probe(`${addresses[0]},${other.address}`, "--expect", "8000");
  assert.equal(unlike.status, 1);
  assert.match(unlike.stderr, /128 x Float, L2.*128 x Uint8, L2|128 x Uint8, L2.*128 x Float, L2/);
});

test("what is written to two collections behind a gateway outlives a kill", async (t) => {
  const agents = [];
  for (const s of [0, 1]) {
    run("create", path.join(folder, `live${s}`), "--dim", String(dim), "--dtype", "u8");
    agents.push(await started(path.join(folder, `live${s}`)));
  }
  const gateway = new Gateway(agents.map((one) => one.agent)), caller = await gateway.start();
  t.after(() => { gateway.stop(); caller.close(); });
  const kinds = { insert: [payload.Insert.Request, "Insert"], update: [payload.Update.Request, "Update"], upsert: [payload.Upsert.Request, "Upsert"] };
  const write = (method, id, row) => caller.code(kinds[method][1], method, made(kinds[method][0], { vector: vectorOf(id, [...row]) }));
  const remove = (id) => caller.code("Remove", "remove", made(payload.Remove.Request, { id: idOf(id) }));
  const nearest = async (row) => results(await caller.call("Search", "search", searching([...row], { num: 1 })))[0];
  const names = Array.from({ length: 60 }, (_, i) => (i % 3 === 0 ? String(i) : `name ${i}`));
  for (const [i, name] of names.entries()) assert.equal(await write("insert", name, base[i]), 0, name);
  for (const s of [0, 1]) assert.equal((await agents[s].agent.call("Agent", "indexInfo", new payload.Empty())).getStored(), 30);
  for (const [i, name] of names.entries()) assert.deepEqual(await nearest(base[i]), [name, 0]);
  assert.equal(await write("insert", names[4], base[100]), grpc.status.ALREADY_EXISTS);
  assert.equal(await write("update", "nobody", base[100]), grpc.status.NOT_FOUND);
  assert.equal(await write("update", names[4], base[100]), 0);
  assert.deepEqual(await nearest(base[100]), [names[4], 0]);
  assert.equal(await write("upsert", "new", base[101]), 0);
  assert.equal(await remove(names[5]), 0);
  assert.equal(await remove(names[5]), grpc.status.NOT_FOUND);
  assert.notEqual((await nearest(base[5]))[0], names[5]);
  assert.equal(await caller.code("Object", "exists", idOf(names[5])), grpc.status.NOT_FOUND);

  // At the agent: several at once, and a stream.
  const { agent } = agents[0];
  const request = (id, row) => made(payload.Insert.Request, { vector: vectorOf(id, [...row]) });
  const several = made(payload.Insert.MultiRequest, { requestsList: [request("m1", base[200]), request("m2", base[201])] });
  assert.deepEqual((await agent.call("Insert", "multiInsert", several)).getLocationsList().map((one) => one.getUuid()), ["m1", "m2"]);
  assert.equal(await agent.code("Insert", "multiInsert", several), grpc.status.ALREADY_EXISTS);
  const told = await agent.stream("Insert", "streamInsert", ["m2", "m3", "m4"].map((id, i) => request(id, base[300 + i])));
  assert.deepEqual(told.map((one) => one.getStatus()?.getCode() ?? 0).sort(), [0, 0, grpc.status.ALREADY_EXISTS]);

  // A server is killed while writes come: what it acknowledged is there when it is back.
  const acknowledged = new Map();
  let killed = false;
  const writers = [0, 1, 2, 3].map(async (w) => {
    for (let i = 0; !killed && i < 2000; ++i) {
      const id = `w${w}-${i}`, row = base[1000 + w * 2000 + i];
      if ((await write("insert", id, row)) === 0) acknowledged.set(id, row);
    }
  });
  await until(async () => acknowledged.size > 200, "writes");
  agents[1].kill("SIGKILL");
  await agents[1].ended;
  killed = true;
  await Promise.all(writers);
  agents[1] = await started(path.join(folder, "live1"), agents[1].address);
  gateway.agents[1] = agents[1].agent;
  assert.ok(acknowledged.size > 200);
  for (const [id, row] of acknowledged)
    assert.deepEqual((await caller.call("Object", "getObject", made(payload.Object.VectorRequest, { id: idOf(id) }))).getVectorList(), [...row], id);
  for (const id of names) if (id !== names[5]) assert.equal(await caller.code("Object", "exists", idOf(id)), 0, id);
});
