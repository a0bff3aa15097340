import { spawnSync } from "node:child_process"

// The return value with which each hook blocks. An exception would block in three of them,
// and have no effect in the others.
const BLOCK = {
  before_tool_call: (reason) => ({ block: true, blockReason: reason }),
  before_agent_run: (reason) => ({ outcome: "block", reason, message: reason }),
  message_sending: (reason) => ({ cancel: true, cancelReason: reason }),
  reply_payload_sending: (reason) => ({ cancel: true, reason }),
  before_install: (reason) => ({ block: true, blockReason: reason }),
  before_message_write: () => ({ block: true }),
}

const workspaces = new Map() // workspace of each session; tool calls do not contain it
const openings = new Map() // reply at the start of a session, added to its first prompt

function payloadOf(hook, api, event, ctx) {
  const about = members(ctx)
  for (const config of [about.config, api.config]) hide(config) // contains all secrets of the gateway
  const sessions = [about.sessionId, about.sessionKey, event?.sessionId, event?.sessionKey].filter(Boolean)
  for (const session of sessions) if (about.workspaceDir) keep(workspaces, session, about.workspaceDir)
  const known = sessions.map((session) => workspaces.get(session)).find(Boolean)
  const agents = api.config?.agents
  const own = agents?.list?.find?.((agent) => agent.id === about.agentId)?.workspace
  about.workspaceDir ??= known ?? own ?? agents?.defaults?.workspace
  return { hook, event, ctx: about }
}

async function told(hook, api, event, ctx) {
  // With this tool the model calls another tool. OpenClaw also reports the inner call, which
  // is the one to judge.
  if (event?.toolName === "tool_call") return undefined
  const payload = payloadOf(hook, api, event, ctx)
  const session = payload.ctx.sessionId ?? event?.sessionId
  // A long conversation with images is too large to judge, and no rule matches its messages.
  const short = event?.messages && { ...payload, event: { ...members(event), messages: undefined } }
  const answer = consult(payload, BLOCK[hook], short)
  if (hook === "session_start") keep(openings, session, answer)
  if (hook !== "before_prompt_build" || !openings.has(session)) return (await answer) ?? undefined
  const opening = await openings.get(session)
  openings.delete(session)
  const prependContext = [opening?.prependContext, (await answer)?.prependContext].filter(Boolean).join("\n\n")
  return prependContext ? { ...(await answer), prependContext } : await answer
}

// before_message_write does not accept a promise, so each message starts a process.
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
      // Run after all other plugins, so that none changes the parameters of a call afterwards.
      // A block from any plugin stays.
      api.on(hook, (event, ctx) => handler(hook, api, event, ctx), { priority: -1_000_000, timeoutMs: DEADLINE + 1000 })
    }
  },
}
