import { spawnSync } from "node:child_process"

// How each hook is told that something shall not happen. To throw would block in three
// of them, and mean nothing in the others.
const BLOCK = {
  before_tool_call: (reason) => ({ block: true, blockReason: reason }),
  before_agent_run: (reason) => ({ outcome: "block", reason, message: reason }),
  message_sending: (reason) => ({ cancel: true, cancelReason: reason }),
  reply_payload_sending: (reason) => ({ cancel: true, reason }),
  before_install: (reason) => ({ block: true, blockReason: reason }),
  before_message_write: () => ({ block: true }),
}

const workspaces = new Map() // where a session works: calls of tools do not say so
const openings = new Map() // what a session shall be told with its first prompt

function payloadOf(hook, api, event, ctx) {
  const about = members(ctx)
  for (const config of [about.config, api.config]) hide(config) // all secrets of the gateway
  const sessions = [about.sessionId, about.sessionKey, event?.sessionId, event?.sessionKey].filter(Boolean)
  for (const session of sessions) if (about.workspaceDir) keep(workspaces, session, about.workspaceDir)
  const known = sessions.map((session) => workspaces.get(session)).find(Boolean)
  const agents = api.config?.agents
  const own = agents?.list?.find?.((agent) => agent.id === about.agentId)?.workspace
  about.workspaceDir ??= known ?? own ?? agents?.defaults?.workspace
  return { hook, event, ctx: about }
}

async function told(hook, api, event, ctx) {
  // The tool by which the model calls another: the call inside of it is told, too, and is
  // the one that counts.
  if (event?.toolName === "tool_call") return undefined
  const payload = payloadOf(hook, api, event, ctx)
  const session = payload.ctx.sessionId ?? event?.sessionId
  // Of a long conversation with pictures nothing could be judged; no rule is about it.
  const short = event?.messages && { ...payload, event: { ...members(event), messages: undefined } }
  const answer = consult(payload, BLOCK[hook], short)
  if (hook === "session_start") keep(openings, session, answer)
  if (hook !== "before_prompt_build" || !openings.has(session)) return (await answer) ?? undefined
  const opening = await openings.get(session)
  openings.delete(session)
  const prependContext = [opening?.prependContext, (await answer)?.prependContext].filter(Boolean).join("\n\n")
  return prependContext ? { ...(await answer), prependContext } : await answer
}

// before_message_write takes no promise: a process for each message.
function toldNow(hook, api, event, ctx) {
  try {
    const input = JSON.stringify(plain(payloadOf(hook, api, event, ctx)))
    const done = spawnSync(COMMAND[0], COMMAND.slice(1), { input, encoding: "utf8", timeout: DEADLINE, killSignal: "SIGKILL", maxBuffer: MAX_QUEUE, windowsHide: true })
    if (done.status === null) throw done.error ?? new Error(`it was ended by ${done.signal}`)
    return heed({ ...done, exit: done.status }, BLOCK[hook])
  } catch (err) {
    say(`grapnel: error: grapnel-hook did not answer: ${err.message}`)
    return CLOSED ? BLOCK[hook]?.(err.message) : undefined
  }
}

const SYNC = new Set(["before_message_write", "tool_result_persist"])

export default {
  id: "grapnel",
  name: "Grapnel",
  description: "Judges what agents do by the policies of Grapnel.",
  register(api) {
    for (const hook of EVENTS) {
      const handler = SYNC.has(hook) ? toldNow : told
      // The last of all plugins: the last to say what a call's parameters are. A block is
      // kept whoever says it, and when.
      api.on(hook, (event, ctx) => handler(hook, api, event, ctx), { priority: -1_000_000, timeoutMs: DEADLINE + 1000 })
    }
  },
}
