// Vald's own client, servers of hmann, and a reference gateway: what tests/vald/vald_test.mjs and tests/ops.mjs share.
//   NODE_MODULES: where npm put vald-client-node
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

export const require = createRequire(path.resolve(process.env.NODE_MODULES, "x.js"));
export const grpc = require("@grpc/grpc-js");
export const vald = require("vald-client-node");
export const { payload } = vald.v1_payload;
const { v1_vald, v1_agent_core } = vald;
export const services = {
  Search: v1_vald.search_grpc.SearchService, Object: v1_vald.object_grpc.ObjectService, Insert: v1_vald.insert_grpc.InsertService,
  Update: v1_vald.update_grpc.UpdateService, Upsert: v1_vald.upsert_grpc.UpsertService, Remove: v1_vald.remove_grpc.RemoveService,
  Agent: v1_agent_core.agent_grpc.AgentService,
};

/** Sets the fields of a message: {id: "7", vectorList: [1, 2]}. */
export function made(Type, fields = {}) {
  const message = new Type();
  for (const [name, value] of Object.entries(fields)) message[`set${name[0].toUpperCase()}${name.slice(1)}`](value);
  return message;
}
export const searching = (vectorList, config) => made(payload.Search.Request, { vectorList, config: made(payload.Search.Config, config) });
export const searchingId = (id, config) => made(payload.Search.IDRequest, { id, config: made(payload.Search.Config, config) });
export const idOf = (id) => made(payload.Object.ID, { id });
export const vectorOf = (id, vectorList) => made(payload.Object.Vector, { id, vectorList });
export const results = (response) => response.getResultsList().map((one) => [one.getId(), one.getDistance()]);

/** A caller of all services at an address: `await agent.call("Search", "search", request)`. */
export class Caller {
  constructor(address) {
    this.clients = Object.fromEntries(Object.entries(services).map(([name, service]) =>
      [name, new (grpc.makeGenericClientConstructor(service))(address, grpc.credentials.createInsecure(), { "grpc.use_local_subchannel_pool": 1 })]));
  }
  call(service, method, request, deadline = 10_000) {
    return new Promise((done, failed) =>
      this.clients[service][method](request, { deadline: Date.now() + deadline }, (error, response) => (error ? failed(error) : done(response))));
  }
  /** The answers to the requests of a stream, in the order in which they come. */
  stream(service, method, requests) {
    return new Promise((done, failed) => {
      const answers = [], call = this.clients[service][method]();
      call.on("data", (answer) => answers.push(answer));
      call.on("error", failed);
      call.on("end", () => done(answers));
      for (const request of requests) call.write(request);
      call.end();
    });
  }
  /** The status code of a call that fails; 0: it succeeds. */
  async code(service, method, request) {
    return this.call(service, method, request).then(() => 0, (error) => error.code);
  }
  close() {
    for (const client of Object.values(this.clients)) client.close();
  }
}

/** A caller of the discoverer at an address: it tells the IPs of agents. */
class Discoverer {
  constructor(address) {
    const nodes = { path: "/discoverer.v1.Discoverer/Nodes", requestStream: false, responseStream: false, requestSerialize: () => Buffer.alloc(0),
      responseDeserialize: (bytes) => payload.Info.Nodes.deserializeBinary(bytes) };
    this.client = new (grpc.makeGenericClientConstructor({ nodes }))(address, grpc.credentials.createInsecure(), { "grpc.use_local_subchannel_pool": 1 });
  }
  agents() {
    return new Promise((done, failed) => this.client.nodes({}, { deadline: Date.now() + 1000 }, (error, nodes) =>
      (error ? failed(error) : done(nodes.getNodesList().flatMap((node) => node.getPods().getPodsList().map((pod) => pod.getIp()))))));
  }
  /** Whether the connection is lost. A status that a proxy answers is not a lost connection. */
  get lost() {
    return this.client.getChannel().getConnectivityState(true) === grpc.connectivityState.TRANSIENT_FAILURE;
  }
  close() {
    this.client.close();
  }
}

/** Runs a program while this process serves: its exit code and what it wrote to stderr. */
export function run(program, ...args) {
  const child = spawn(program, args, { stdio: ["ignore", "ignore", "pipe"] });
  let stderr = "";
  child.stderr.on("data", (data) => (stderr += data));
  return new Promise((done) => child.on("close", (status) => done({ status, stderr })));
}

/** Waits until `what` returns a value. */
export async function until(what, text) {
  for (let left = 600; left > 0; --left) {
    const found = await what().catch(() => undefined);
    if (found) return found;
    await sleep(50);
  }
  throw new Error(`${text}: not within 30 s`);
}

/** `hmann serve` of one index as an agent at an address; it serves when this returns. */
export async function serve(hmann, index, address = "127.0.0.1:0", more = []) {
  const child = spawn(hmann, ["serve", "--index", `x=${index}`, "--vald", "x", "--listen", address, "--json", ...more], { stdio: ["ignore", "pipe", "pipe"] });
  child.text = "";
  child.stdout.on("data", (data) => (child.text += data));
  child.stderr.on("data", () => {});
  child.ended = new Promise((done) => child.on("close", (code, signal) => done(code ?? signal)));
  child.address = await until(async () => JSON.parse(child.text).listening, "an address");
  child.agent = new Caller(child.address);
  await until(() => child.agent.call("Agent", "indexInfo", new payload.Empty()), "an index that serves");
  return child;
}

/** A gateway as Vald's: it asks all agents, drops ids that it has, sorts and cuts; it writes to one of them. */
export class Gateway {
  /** `agents`: callers. */
  constructor(agents) {
    this.agents = agents;
    this.server = new grpc.Server();
    const answer = (work) => (call, done) => work(call.request).then((response) => done(null, response), (error) => done({ code: error.code ?? 2, message: error.message }));
    const { Request } = payload.Search;
    this.server.addService(services.Search, {
      search: answer((request) => this.search(request)),
      searchByID: answer(async (request) => this.search(made(Request, { vectorList: (await this.get(request.getId())).getVectorList(), config: request.getConfig() }))),
      multiSearch: answer(async (request) => made(payload.Search.Responses, { responsesList: await Promise.all(request.getRequestsList().map((one) => this.search(one))) })),
    });
    this.server.addService(services.Object, { exists: answer(async (id) => (await this.get(id.getId()), id)), getObject: answer((request) => this.get(request.getId().getId())) });
    const write = (name, owner) => this.server.addService(services[name], { [name.toLowerCase()]: answer(async (request) => {
      const agent = await owner(name === "Remove" ? request.getId().getId() : request.getVector().getId());
      return agent.call(name, name.toLowerCase(), request);
    }) });
    write("Insert", async (id) => {
      if (await this.owner(id).catch(() => undefined)) throw Object.assign(new Error(`${id} exists`), { code: grpc.status.ALREADY_EXISTS });
      return this.next();
    });
    write("Update", (id) => this.owner(id));
    write("Upsert", (id) => this.owner(id).catch(() => this.next()));
    write("Remove", (id) => this.owner(id));
  }
  /**
   * Finds agents as Vald's gateway v1.7.0 does: it asks the discoverer again and again. While that does not answer, only the IPs of `dns` are
   * agents; when the connection to it is lost, it is never asked again. Agents listen on `port`.
   */
  async discover(address, dns, port) {
    let discoverer = new Discoverer(address);
    const callers = new Map();
    while (!this.stopped) {
      const found = await discoverer?.agents().catch(() => undefined) ?? dns;
      if (discoverer?.lost) discoverer = discoverer.close();
      for (const ip of found) if (!callers.has(ip)) callers.set(ip, new Caller(`${ip}:${port}`));
      this.agents = found.map((ip) => callers.get(ip));
      await sleep(200);
    }
    discoverer?.close();
    for (const caller of callers.values()) caller.close();
  }
  next() {
    this.turn = ((this.turn ?? -1) + 1) % this.agents.length;
    return this.agents[this.turn];
  }
  async search(request) {
    const answers = await Promise.allSettled(this.agents.map((agent) => agent.call("Search", "search", request)));  // a dead one is left out, as Vald does
    const found = new Map(answers.filter((one) => one.status === "fulfilled").flatMap((one) => one.value.getResultsList()).sort((a, b) => b.getDistance() - a.getDistance())
      .map((one) => [one.getId(), one]));
    const resultsList = [...found.values()].sort((a, b) => a.getDistance() - b.getDistance()).slice(0, request.getConfig().getNum());
    return made(payload.Search.Response, { requestId: request.getConfig().getRequestId(), resultsList });
  }
  owner(id) {
    return Promise.any(this.agents.map(async (agent) => (await agent.call("Object", "exists", idOf(id)), agent))).catch((error) => { throw error.errors[0]; });
  }
  async get(id) {
    return (await this.owner(id)).call("Object", "getObject", made(payload.Object.VectorRequest, { id: idOf(id) }));
  }
  start() {
    return new Promise((done, failed) =>
      this.server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), (error, port) => {
        if (error) return failed(error);
        this.address = `127.0.0.1:${port}`;
        done(new Caller(this.address));
      }));
  }
  stop() {
    this.stopped = true;
    this.server.forceShutdown();
  }
}
