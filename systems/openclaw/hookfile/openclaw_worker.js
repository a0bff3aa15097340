'use strict';
// A worker of Grapnel that runs the handlers of one module, written in JavaScript or TypeScript for
// OpenClaw:
//
//     node --input-type=commonjs -e THIS FILE EXPORT EVENT EVENTS
//
// EXPORT is the name of an export, or empty. EVENT is the event of the mapping, and EVENTS are all
// events of OpenClaw, joined by commas.
const fs = require('node:fs');
const { pathToFileURL } = require('node:url');

const [file, exported, event, events] = process.argv.slice(1);
const typed = /\.[mc]?ts$/i.test(file);
const strip = '--experimental-strip-types'; // from 22.6 until it became the default in 22.18 and 23.6
const [major, minor] = process.versions.node.split('.').map(Number);
const canStrip = process.features.typescript || process.execArgv.includes(strip);

if (typed && !canStrip && (major > 22 || major === 22 && minor >= 6)) {
  const args = [strip, ...process.execArgv, ...process.argv.slice(1)];
  require('node:child_process').spawn(process.execPath, args, { stdio: 'inherit' }).on('exit', (code) => process.exit(code ?? 1));
} else {
  work();
}

function work() {
  const limit = (1 << 20) - 4096; // Grapnel reads lines of 1 MiB
  const open = new Set(); // ids of events without an answer
  let ended = false;

  // Only messages go to standard output. Whatever a handler prints goes to standard error.
  const write = process.stdout.write.bind(process.stdout);
  process.stdout.write = process.stderr.write.bind(process.stderr);
  const warn = process.emitWarning;
  process.emitWarning = (warning, ...rest) => {
    if (![rest[0], rest[0]?.type, warning?.name].includes('ExperimentalWarning')) warn.call(process, warning, ...rest);
  };

  const exit = () => { if (ended && open.size === 0) process.exit(0); };
  const answer = (id, message) => {
    if (!open.delete(id)) return;
    let line = JSON.stringify({ type: 'answer', id, ...message });
    if (Buffer.byteLength(line) > limit) {
      line = JSON.stringify({ type: 'answer', id, error: `its result has ${Buffer.byteLength(line)} bytes, more than ${limit}` });
    }
    write(line + '\n', exit);
  };

  // An error outside of a call, such as in a timer, may concern any event in progress.
  for (const name of ['uncaughtException', 'unhandledRejection']) {
    process.on(name, (error) => {
      console.error(error);
      for (const id of open) answer(id, { error: `${name}: ${describe(error)}` });
    });
  }

  write(JSON.stringify({ grapnel: 1, type: 'hello', name: 'openclaw', concurrency: 16 }) + '\n');
  require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const message = JSON.parse(line);
    if (message.type !== 'event') return;
    open.add(message.id);
    handle(message.event).then((m) => answer(message.id, m), (error) => answer(message.id, { error: describe(error) }));
  }).on('close', () => {
    ended = true;
    exit();
  });
}

function describe(error) {
  return error instanceof Error ? `${error.name}: ${error.message}` : `threw ${String(error)}`;
}

// Returns the answer to one event: the merged results of all handlers, and their errors.
async function handle(input) {
  if (!input.ctx) throw new Error('the event has no ctx: the program that started this worker must use policy.DialectOf');
  const handlers = await load();
  const both = { ...input.ctx, ...input.event };
  const runs = await Promise.allSettled(handlers.map(async ({ handler }) => checked(await handler(structuredClone(both), structuredClone(input.ctx)))));
  const message = { outcome: runs.reduce((merged, run) => merge(merged, run.value ?? {}), {}) };
  const errors = runs.filter((run) => run.status === 'rejected').map((run) => describe(run.reason));
  if (errors.length > 0) message.error = errors.join('; ');
  return message;
}

// Returns a result as JSON would transport it.
function checked(result) {
  if (result === undefined || result === null) return {};
  if (typeof result !== 'object' || Array.isArray(result)) {
    throw new Error(`its result is ${Array.isArray(result) ? 'an array' : `a ${typeof result}`}, not an object`);
  }
  try {
    return JSON.parse(JSON.stringify(result));
  } catch (error) {
    throw new Error(`its result cannot be written as JSON: ${error.message}`);
  }
}

// Adds a result to those of earlier handlers: the last value wins, contexts are joined, and no
// handler can undo a block.
function merge(merged, result) {
  for (const [name, value] of Object.entries(result)) {
    if (value === null || merged[name] === 'block' || merged[name] === true && (name === 'block' || name === 'cancel')) continue;
    const joins = /Context$/.test(name) && merged[name] && typeof value === 'string';
    merged[name] = joins ? `${merged[name]}\n\n${value}` : value;
  }
  return merged;
}

let registered = []; // handlers that the module registered, also later
let loaded; // {stamp, done}
let loads = 0;

// Returns the handlers of the event, lower rank first. It loads the module again if the file has
// changed.
async function load() {
  const { ino, size, mtimeMs, ctimeMs } = fs.statSync(file);
  const stamp = [ino, size, mtimeMs, ctimeMs].join('-');
  if (loaded?.stamp !== stamp) {
    registered = [];
    loaded = { stamp, done: read() };
  }
  try {
    await loaded.done;
  } catch (error) {
    loaded = undefined; // the next event tries again
    throw error;
  }
  const found = registered.filter((hook) => hook.event === plain(event)).sort((a, b) => a.rank - b.rank);
  if (found.length === 0) {
    const others = registered.map((hook) => hook.event).join(', ');
    throw new Error(`${file} has no handler for ${event}: ${others ? `it registers only ${others}` : 'it exports no function and registers none'}`);
  }
  return found;
}

async function read() {
  if (typed && !canStrip) {
    throw new Error(`cannot load ${file}: TypeScript needs Node 22.6 or later, and this is ${process.versions.node}`);
  }
  const url = pathToFileURL(file);
  if (loads++ > 0) {
    url.search = String(loads); // a module is loaded once per URL
    delete require.cache[fs.realpathSync(file)];
  }
  let module;
  try {
    module = await import(url.href);
  } catch (error) {
    throw new Error(`cannot load ${file}: ${describe(error)}`);
  }
  const main = exported ? module[exported] ?? module.default?.[exported] : module.default?.default ?? module.default ?? module.register ?? module.handler;
  if (exported && typeof main !== 'function') throw new Error(`${file} exports no function ${exported}`);
  if (typeof main?.register === 'function') {
    await main.register(api);
  } else if (typeof main === 'function' && (main === module.register || /^(async\s+)?(function\b[^(]*)?\(?\s*api\b/.test(String(main)))) {
    await main(api);
  } else if (typeof main === 'function') {
    register(event, main, 0);
  }
}

const plain = (name) => String(name).replaceAll('-', '_');

function register(names, handler, rank) {
  if (typeof handler !== 'function') throw new TypeError(`the handler of ${names} is ${typeof handler}, not a function`);
  for (const name of [names].flat()) {
    if (!events.split(',').includes(plain(name))) throw new Error(`"${name}" is not an event of OpenClaw`);
    registered.push({ event: plain(name), handler, rank: Number.isFinite(rank) ? rank : 0 });
  }
}

// The part of OpenClaw's plugin API that Grapnel supports. With an object, lower priorities run
// first, as in the document about the hooks. With a name, higher ones do, as in the program.
const api = new Proxy({
  id: 'grapnel', name: 'grapnel', config: {}, pluginConfig: {}, registrationMode: 'full',
  logger: Object.fromEntries(['debug', 'info', 'warn', 'error'].map((level) => [level, (...args) => console.error(...args)])),
  registerHook(names, handler, options) {
    if (typeof names === 'object' && !Array.isArray(names)) register(names.event, names.handler, names.priority);
    else register(names, handler, -options?.priority);
  },
  on(names, handler, options) { register(names, handler, -options?.priority); },
}, {
  get(known, name) {
    if (name in known || typeof name === 'symbol' || name === 'then') return known[name];
    return () => { throw new Error(`Grapnel does not support api.${name}, only api.registerHook and api.on`); };
  },
});
globalThis.api = api;
