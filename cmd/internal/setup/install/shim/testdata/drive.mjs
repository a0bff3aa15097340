// Calls the hooks of a plugin as its agent would: a line of JSON in, a line out.
import { createInterface } from "node:readline"
import { pathToFileURL } from "node:url"

const [agent, file] = process.argv.slice(2)
const module = await import(pathToFileURL(file))
const hooks = {}
const toasts = []
async function load(module) {
  if (agent === "openclaw") {
    const on = (name, handler, opts) => (hooks[name] = { handler, opts })
    for (const registrationMode of ["full", "discovery", "tool-discovery"]) {
      const api = { registrationMode, config: { agents: { defaults: { workspace: "/configured" } } }, on }
      if (module.default.register(api) !== undefined) throw new Error("register gave something back")
    }
    return
  }
  const { id, server, setup, ...more } = module.default
  if (Object.keys(module).join() !== "default" || id !== "grapnel" || Object.keys(more).length > 0) throw new Error("not exactly one export {id, server, setup}")
  if (agent === "opencode2") return load2(setup)
  const client = { tui: { showToast: async ({ body }) => toasts.push(body.message) } }
  const made = await server({ directory: "/project", worktree: "/", client, $: () => {} })
  for (const [name, handler] of Object.entries(made)) hooks[name] = { handler }
}
// A context with the interface of OpenCode 2: each hook gets one event, which it changes.
async function load2(setup) {
  const domain = (prefix) => ({
    hook: async (name, callback) => {
      hooks[prefix + name] = {
        handler: async (event) => {
          if (event.result) copied(event)
          if ((await callback(event)) !== undefined) throw new Error("a hook returned something")
          return event
        },
      }
      return { dispose: async () => {} }
    },
  })
  async function* subscribe({ signal }) {
    while (!signal.aborted) yield await new Promise((resolve) => (hooks.event = { handler: resolve }))
  }
  const made = await setup({ location: { directory: "/project" }, tool: domain("tool."), permission: domain("permission."), session: domain("session."), event: { subscribe } })
  if (typeof made !== "function") throw new Error("setup returned no function that ends it")
}

// copied makes the result of a call a copy at each read, as in OpenCode 2.
function copied(event) {
  let { result } = event
  Object.defineProperty(event, "result", { enumerable: true, get: () => structuredClone(result), set: (value) => (result = value) })
}
await load(module)

// What no JSON can say, in the places where agents have it.
function odd(value) {
  value.self = value
  value.list = [value, () => {}, Symbol("x")]
  value.big = 2n ** 70n
  value.abortSignal = new AbortController().signal
  value.getCron = () => {}
  value.config = { token: "sk-secret" }
  value.provider = { options: { apiKey: "sk-secret" } }
  value.bytes = new Uint8Array(10)
  value.map = new Map([[value, value]])
  value.never = new Date(NaN)
  value[Symbol("name")] = 1
  value.same = { a: 1, toJSON: function () { return this } }
  const thrower = () => { throw new Error("not now") }
  Object.defineProperty(value, "refused", { enumerable: true, get: thrower })
  return value
}

// What takes more stack to copy than there is, as a model can make it.
function deep(value) {
  let list = []
  for (let depth = 0; depth < 200_000; depth++) list = [list]
  value.deep = list
}

const many = async (call, times) => (await Promise.all(Array.from({ length: times }, call))).length
for await (const line of createInterface({ input: process.stdin })) {
  const { hook, args, strange, times, reload } = JSON.parse(line)
  if (reload) await load(await import(`${pathToFileURL(file)}?${reload}`))
  const answer = { registered: Object.keys(hooks), opts: hooks[hook]?.opts }
  if (strange === "deep") deep(args[0].params ?? args[1].args)
  else if (strange === "frozen") Object.freeze(args.length > 1 ? args[1].args : args[0])
  else if (strange) odd(args[strange === "ctx" ? 1 : 0])
  const kept = args.map((arg) => arg?.args ?? arg?.parts ?? arg) // the agent has its own references
  try {
    const result = times ? await many(() => hooks[hook].handler(...structuredClone(args)), times) : await hooks[hook]?.handler(...args)
    answer.undefined = result === undefined
    answer.result = result
  } catch (err) {
    answer.threw = err.message
  }
  answer.kept = strange ? undefined : kept
  answer.args = strange ? undefined : args
  answer.toasts = toasts
  process.stdout.write(JSON.stringify(answer) + "\n")
}
