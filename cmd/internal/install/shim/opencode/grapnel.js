// The hooks that are not experimental. All other events come over the bus, as an event with
// this type.
const HOOKS = ["chat.message", "chat.params", "chat.headers", "command.execute.before", "dispose", "shell.env"]
HOOKS.push("tool.definition", "tool.execute.before", "tool.execute.after")

const stops = (reason) => ({ block: true, reason })
const BLOCK = { "chat.message": stops, "tool.execute.before": stops }

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

export const Grapnel = async (ctx) => {
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
