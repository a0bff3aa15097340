// The hooks that are not experimental. All other events come over the bus, as an event with
// this type.
const HOOKS = ["chat.message", "chat.params", "chat.headers", "command.execute.before", "dispose", "shell.env"]
HOOKS.push("tool.definition", "tool.execute.before", "tool.execute.after")

const stops = (reason) => ({ block: true, reason })
const BLOCK = { "chat.message": stops, "tool.execute.before": stops, "permission.evaluate": stops }

const calls = new Map() // current calls; a failed call has no tool.execute.after
const openings = new Map() // reply at the start of a session, added to its first prompt

// put makes an object equal to another in place, because the agent keeps its reference.
function put(into, from) {
  for (const name of Object.keys(into)) if (!Object.hasOwn(from, name)) delete into[name]
  if (Array.isArray(into)) into.length = from.length
  for (const [name, value] of Object.entries(from)) {
    const old = Object.hasOwn(into, name) ? into[name] : undefined
    const both = [old, value].every((v) => typeof v === "object" && v !== null)
    if (both && Array.isArray(old) === Array.isArray(value)) put(old, value)
    else Object.defineProperty(into, name, { value, configurable: true, enumerable: true, writable: true })
  }
}

const asText = (value) => (typeof value === "string" ? value : JSON.stringify(value))
const typed = (part) => part.type === "text" && !part.synthetic

// Functions that apply a reply to the output of a hook.
const HEED = {
  "chat.message"({ message, parts }, answer) {
    if (answer.prompt !== undefined) {
      const first = parts.find(typed)
      if (first) first.text = answer.prompt
      parts.splice(0, parts.length, ...parts.filter((part) => part === first || !typed(part)))
    }
    if (answer.context) {
      const { id, sessionID } = message
      const after = parts.at(-1)?.id ?? "prt_" + id.slice(4)
      parts.push({ id: after + "g", sessionID, messageID: id, type: "text", text: answer.context, synthetic: true })
    }
  },
  "tool.execute.before"(output, answer) {
    if (answer.args) put(output.args, answer.args)
  },
  "tool.execute.after"(output, answer) {
    const mcp = typeof output.output !== "string" // the unchanged output of an MCP server
    if (answer.output !== undefined) {
      if (!mcp) output.output = asText(answer.output)
      else if (Array.isArray(answer.output?.content)) put(output, answer.output)
      else output.content = [{ type: "text", text: asText(answer.output) }]
    }
    for (const more of [answer.reason, answer.context]) {
      if (more && mcp) (output.content ??= []).push({ type: "text", text: more })
      else if (more) output.output += "\n\n" + more
    }
  },
  "experimental.chat.system.transform"(output, answer) {
    if (answer.context) output.system.push(answer.context)
  },
  "experimental.session.compacting"(output, answer) {
    if (answer.context) output.context.push(answer.context)
  },
  "experimental.text.complete"(output, answer) {
    if (answer.text !== undefined) output.text = asText(answer.text)
  },
}

async function tell(ctx, hook, input, output) {
  const about = members(input)
  hide(about.provider) // contains the keys of its models
  const answer = await consult({ hook, directory: ctx.directory, input: about, output }, BLOCK[hook])
  // OpenCode does not show why a prompt fails.
  const message = [answer?.message, hook === "chat.message" && answer?.block && answer.reason].filter(Boolean).join("\n")
  if (message) {
    const toast = { message, variant: "warning" }
    const show = async () => ctx.client?.tui?.showToast?.({ body: toast })
    show().catch(() => {}) // there is no user interface
  }
  if (hook === "chat.message" && answer?.block) say("grapnel: " + answer.reason)
  return answer
}

async function told(ctx, hook, input, output) {
  // OpenCode also requests a title from the model through these hooks. Skip such requests. A hook
  // that can block is never one, for any name of the agent.
  if (!BLOCK[hook] && (input?.agent === "title" || /^You are a title generator/.test(output?.system?.[0]))) return
  const answer = (await tell(ctx, hook, input, output)) ?? {}
  if (answer.block) throw new Error(answer.reason)
  if (hook === "tool.execute.before") keep(calls, input.callID, true)
  if (hook === "tool.execute.after") calls.delete(input.callID)
  if (hook === "chat.message" && openings.has(input.sessionID)) {
    const opening = await openings.get(input.sessionID)
    openings.delete(input.sessionID)
    answer.context = [opening?.context, answer.context].filter(Boolean).join("\n\n")
  }
  try {
    HEED[hook]?.(output, answer)
  } catch (err) {
    if (BLOCK[hook]) throw err // otherwise the original call would run
    say(`grapnel: error: ${hook}: ${err.message}`)
  }
}

async function happened(ctx, event) {
  const { part, info } = event.properties ?? {}
  if (event.type === "message.part.updated") {
    if (part?.type !== "tool" || part.state?.status !== "error" || !calls.delete(part.callID)) return
  }
  const answer = tell(ctx, event.type, { event }, undefined)
  if (event.type === "session.created" && info) keep(openings, info.id, answer)
  await answer
}

// server is the plugin for OpenCode 1.
const server = async (ctx) => {
  const hooks = {}
  const types = new Set()
  for (const name of EVENTS) {
    if (HOOKS.includes(name) || name.startsWith("experimental.")) hooks[name] = (input, output) => told(ctx, name, input, output)
    else types.add(name)
  }
  hooks.event = async ({ event }) => {
    if (types.has(event.type)) await happened(ctx, event).catch((err) => say(`grapnel: error: ${err.message}`))
  }
  return hooks
}

// The plugin for OpenCode 2. A hook gets one event and changes its members, its return value is
// ignored, and OpenCode waits for it without a limit. An exception refuses the call in
// execute.before; elsewhere it is a fault of the plugin, so hooks only throw if they cannot block.
// Events are sent under their names in OpenCode 1.

const contexts = new Map() // context of a session's start and of its latest prompt, for each model call
const refused = new Map() // calls that this plugin refused, which may be reported as failed

const gently = (handle) => (event) => handle(event).catch((err) => say(`grapnel: error: ${err.message}`))
const about = ({ sessionID, agent, model }) => ({ sessionID, agent, model })
const callOf = ({ tool, sessionID, id, agent }, more) => ({ tool, sessionID, callID: id, agent, ...more })

// instruct adds texts to the system prompt of a model call.
function instruct(event, ...texts) {
  for (const text of texts) if (text) event.system.push({ type: "text", text })
}

const setup = async (context) => {
  const ctx = { directory: context.location?.directory ?? process.cwd() }
  const wants = (name) => EVENTS.includes(name)
  const ask = async (event, name, output) => (wants(name) ? await tell(ctx, name, about(event), output) : undefined)
  // A hook that this version does not have must not remove the guard of tools.
  const also = (domain, name, handle) => gently(async () => context[domain].hook(name, handle))()

  await context.tool.hook("execute.before", async (event) => {
    const patch = typeof event.input === "string" // a tool with free text
    const args = patch ? { patchText: event.input } : event.input
    const answer = await tell(ctx, "tool.execute.before", callOf(event), { args })
    if (answer?.block) {
      keep(refused, event.id + event.tool, true)
      throw new Error(answer.reason)
    }
    if (answer?.args) event.input = patch ? answer.args.patchText : answer.args
  })

  const failed = async (event) => {
    if (refused.delete(event.id + event.tool) || !wants("message.part.updated")) return
    const state = { status: "error", input: event.input, error: event.error?.message ?? asText(event.error) }
    const part = { type: "tool", tool: event.tool, callID: event.id, sessionID: event.sessionID, state }
    await tell(ctx, "message.part.updated", { event: { type: "message.part.updated", properties: { part } } })
  }
  await also("tool", "execute.after", gently(async (event) => {
    if (event.status === "error") return failed(event)
    if (!wants("tool.execute.after")) return
    const { output: made, ...result } = event.result // a copy; content is what the model reads
    const output = { content: plain(result.content ?? []) }
    const answer = (await tell(ctx, "tool.execute.after", callOf(event, { args: event.input }), output)) ?? {}
    HEED["tool.execute.after"](output, answer)
    const changed = answer.output !== undefined
    if (changed || answer.reason || answer.context) event.result = { ...result, ...(changed ? {} : { output: made }), content: output.content }
  }))

  if (wants("permission.evaluate")) {
    await also("permission", "evaluate", async (event) => {
      const { action, resources = [], source } = event
      const args = action === "shell" ? { command: resources.join("\n") } : { path: resources[0], resources }
      const answer = await tell(ctx, "permission.evaluate", { ...about(event), action, callID: source?.callID, args })
      if (answer?.block) event.effect = "deny"
      else if (answer?.ask) event.effect = "ask"
      else if (answer?.allow && event.effect === "ask") event.effect = "allow"
      if (answer?.block || answer?.ask) event.message = answer.reason
    })
  }

  await also("session", "prompt", async (event) => {
    const { sessionID, messageID, prompt } = event
    const output = { message: { id: messageID }, parts: [{ type: "text", text: prompt?.text ?? "" }] }
    const answer = await ask(event, "chat.message", output)
    // Nothing refuses a prompt: the model gets the reason instead of it.
    if (answer?.block) event.prompt = { text: `grapnel blocked a prompt: ${answer.reason}` }
    else if (answer?.prompt !== undefined) event.prompt = { ...prompt, text: answer.prompt }
    const opening = (await openings.get(sessionID))?.context ?? contexts.get(sessionID)?.opening
    openings.delete(sessionID)
    keep(contexts, sessionID, { opening, latest: answer?.context })
  })

  await also("session", "context", gently(async (event) => {
    if ((event.kind ?? "primary") !== "primary") return
    const { opening, latest } = contexts.get(event.sessionID) ?? {}
    const answer = await ask(event, "experimental.chat.system.transform", { system: event.system.map((part) => part.text) })
    instruct(event, opening, latest, answer?.context)
  }))
  await also("session", "compaction", gently(async (event) => {
    instruct(event, (await ask(event, "experimental.session.compacting", { context: [] }))?.context)
  }))

  const ended = new AbortController()
  const listen = async () => {
    for await (const { type, properties, data } of context.event.subscribe({ signal: ended.signal })) {
      // A failed call comes from execute.after.
      if (wants(type) && type !== "message.part.updated") gently(happened.bind(null, ctx))({ type, properties: properties ?? data })
    }
  }
  gently(listen)()
  return () => ended.abort()
}

// OpenCode 1 calls server and OpenCode 2 calls setup. Without one of them, that version loads the
// file and runs no hook.
export default { id: "grapnel", server, setup }
