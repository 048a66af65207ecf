// SPDX-License-Identifier: Apache-2.0
//
// node import_perfetto.mjs FOLDER TRACE: what Perfetto's trace processor takes a trace for, as JSON, in the form of
// import_trace.js. FOLDER has the trace processor as WebAssembly; tools/dependencies.sh brings it in.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import vm from "node:vm";

const [folder, trace] = process.argv.slice(2);

// Standard output is for the answer.
for (const method of ["log", "info", "warn", "error"]) console[method] = () => {};

/** Stands for the request by which a worker reads the WebAssembly. */
class FileRequest {
  open(_, path) {
    this.path = path;
  }

  send() {
    this.response = readFileSync(join(folder, this.path));
  }
}

/** Runs the script of Perfetto's worker in this thread: the object whose `onmessage` takes its port. */
function startWorker() {
  const worker = { location: { href: "" } };
  Object.assign(globalThis, { self: worker, WorkerGlobalScope: class {}, XMLHttpRequest: FileRequest });
  // The folder has the 32-bit variant alone.
  const script = readFileSync(join(folder, "engine_bundle.node.js"), "utf8").replace("= hasMemory64Support()", "= false");
  vm.runInThisContext(script);
  return worker;
}

async function startEngine() {
  const { EngineBase } = await import(pathToFileURL(join(folder, "engine.mjs")));
  const worker = startWorker();
  class Engine extends EngineBase {
    port = { postMessage: (bytes) => this.onRpcResponseBytes(bytes) };

    rpcSendRequestBytes(data) {
      this.port.onmessage({ data });
    }
  }
  const engine = new Engine();
  worker.onmessage({ data: engine.port });
  await new Promise(setImmediate); // the WebAssembly is ready when all promises so far are kept
  return engine;
}

const engine = await startEngine();
await engine.parse(readFileSync(trace));
await engine.notifyEof();

/** The rows of a query as objects. */
async function query(sql) {
  const result = await engine.query(sql);
  const rows = [];
  for (const at = result.iter({}); at.valid(); at.next()) {
    const value = (name) => (typeof at.get(name) === "bigint" ? Number(at.get(name)) : at.get(name));
    rows.push(Object.fromEntries(result.columns().map((name) => [name, value(name)])));
  }
  return rows;
}

function valueOf({ type, text, whole, real }) {
  if (type === "bool") return whole !== 0;
  return type === "string" || type === "json" ? text : (whole ?? real);
}

/** Puts a value at a path such as meta.shape[0]. */
function place(root, path, value) {
  const keys = path.replaceAll("[", ".").replaceAll("]", "").split(".");
  let inner = root;
  keys.slice(0, -1).forEach((key, index) => {
    inner[key] ??= /^\d+$/.test(keys[index + 1]) ? [] : {};
    inner = inner[key];
  });
  inner[keys.at(-1)] = value;
}

/** {set: arguments}. */
async function readArguments() {
  const sets = new Map();
  const rows = await query(
    "select arg_set_id as id, key, value_type as type, string_value as text, int_value as whole, real_value as real from args",
  );
  for (const { id, key, ...value } of rows) {
    if (!sets.has(id)) sets.set(id, {});
    place(sets.get(id), key, valueOf(value));
  }
  return sets;
}

const milliseconds = (nanoseconds) => nanoseconds / 1e6;
const sets = await readArguments();
const argumentsOf = (id) => sets.get(id)?.args ?? {};
const processes = await query("select pid, name, arg_set_id as id from process where upid != 0");
const threads = await query("select tid, thread.name, pid from thread join process using (upid) where tid != pid");
const slices = await query(
  `select slice.id, pid, tid, slice.name, category, ts, dur, depth, slice.parent_id as parent, slice.arg_set_id as args
   from slice join thread_track on slice.track_id = thread_track.id join thread using (utid) join process using (upid)
   order by slice.id`,
);
const marks = await query(
  `select pid, slice.name, ts, slice.arg_set_id as args
   from slice join process_track on slice.track_id = process_track.id join process using (upid)`,
);
const counters = await query(
  `select pid, process_counter_track.name, ts, value
   from counter join process_counter_track on counter.track_id = process_counter_track.id join process using (upid)`,
);
const flows = await query("select slice_out as source, slice_in as target from flow");
const faults = await query(
  "select name, value from stats where severity in ('error', 'data_loss') and value > 0 union all " +
    "select 'slices on no track', count(*) from slice where track_id not in " +
    "(select id from thread_track union select id from process_track) having count(*) > 0",
);

const placeOf = new Map(slices.map(({ id }, index) => [id, index]));
process.stdout.write(
  JSON.stringify({
    warnings: faults.map(({ name, value }) => `${name}: ${value}`),
    processes: processes.map(({ pid, name, id }) => ({ pid, name, sort: sets.get(id)?.process_sort_index_hint })),
    threads,
    slices: slices.map(({ pid, tid, name, category, ts, dur, depth, parent, args }) => ({
      pid,
      tid,
      name,
      category,
      start: milliseconds(ts),
      duration: milliseconds(dur),
      depth,
      parent: parent === null ? null : placeOf.get(parent),
      args: argumentsOf(args),
    })),
    marks: marks.map(({ pid, name, ts, args }) => ({ pid, name, start: milliseconds(ts), args: argumentsOf(args) })),
    // Perfetto names a counter after its series too.
    counters: counters.map(({ pid, name, ts, value }) => ({
      pid,
      name: name.replace(/ value$/, ""),
      start: milliseconds(ts),
      value,
    })),
    flows: flows.map(({ source, target }) => ({ from: placeOf.get(source), to: placeOf.get(target) })),
  }),
);
