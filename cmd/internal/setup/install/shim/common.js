// The plugin of Grapnel: it sends the events of the agent's hooks to grapnel-hook, and applies
// the replies. "grapnel install" writes it, and "grapnel uninstall" removes it.
import { spawn } from "node:child_process"

// Written by "grapnel install": the command of grapnel-hook, the events to send, whether a
// guard that cannot answer blocks, and the time limit for a reply in milliseconds.
const COMMAND = $COMMAND
const EVENTS = $EVENTS
const CLOSED = $CLOSED
const DEADLINE = $DEADLINE

// One grapnel-hook --serve for the whole process. The first event starts it, and the next
// event restarts it if it has ended. Both sides send lines of JSON.
const HELLO = Math.min(DEADLINE, 10_000) // milliseconds until the first message
const MAX_QUEUE = 64 << 20 // characters waiting to be written; further events fail
const MAX_LINE = 256 << 20 // characters of a line; far below the limit of a string
const MAX_EVENT = 8 << 20 // characters of an event with its optional part
const LOADED = Symbol.for("grapnel " + COMMAND.join(" "))
const waiting = new Map() // the child and the callback of each event, by ID
const secrets = new WeakSet() // objects that are never sent, at any depth
const said = new Set()
let child
let failures = 0
let notBefore = 0
let lastID = 0
let heard = 0
let complaint = ""

const now = () => performance.now() // monotonic; the system clock can be set back

// say prints an error for the user, each error once.
function say(text) {
  text = text.trim()
  if (!text || said.has(text) || said.size > 100) return
  said.add(text)
  process.stderr.write(text + "\n")
}

function start() {
  if (child || now() < notBefore) return child
  complaint = ""
  const it = spawn(COMMAND[0], [...COMMAND.slice(1), "--serve"], { stdio: "pipe", windowsHide: true })
  it.on("error", (err) => gone(it, err.message))
  it.on("exit", (code, signal) => gone(it, `it ended (${signal ?? code})`))
  it.stderr.setEncoding("utf8").on("data", (text) => {
    complaint = (complaint + text).slice(-500)
  })
  const mute = setTimeout(() => end(it, `it sent no message within ${HELLO} ms after its start`), HELLO)
  it.on("exit", () => clearTimeout(mute)).on("error", () => clearTimeout(mute))
  let rest = ""
  it.stdout.setEncoding("utf8").on("data", (chunk) => {
    const lines = chunk.split("\n")
    if (rest.length > MAX_LINE) return end(it, "it sent a line without an end")
    rest += lines[0] // a long line comes in several chunks
    if (lines.length === 1) return
    lines[0] = rest
    rest = lines.pop()
    for (const line of lines) if (hear(line)) clearTimeout(mute)
  })
  for (const part of [it.stdin, it.stdout, it.stderr]) part.on("error", () => {}) // the exit event reports this
  // These do not keep the agent alive. The timer of a current event does.
  for (const part of [it, it.stdin, it.stdout, it.stderr]) part.unref?.()
  // If the plugin was loaded before in this process, retire the child of the earlier copy.
  globalThis[LOADED]?.()
  globalThis[LOADED] = retire
  child = it
  return it
}

// retire lets the child end after it has answered all events.
function retire() {
  const it = child
  child = undefined
  it?.stdin.end()
}

// end kills a child that hangs.
function end(it, why) {
  complaint = why
  it.kill("SIGKILL")
  gone(it, why, true)
}

// gone fails the events that the child has not answered. The next event starts another child:
// at once after the first failure, then with increasing delays. An event whose child hung is
// not sent again, because the agent would not wait for that.
function gone(it, why, hung = false) {
  if (child === it) {
    child = undefined
    complaint ||= why
    failures++
    notBefore = failures < 2 ? 0 : now() + Math.min(100 * 2 ** failures, 30_000)
  }
  for (const asked of [...waiting.values()]) if (asked.it === it) asked.settle(hung ? undefined : null)
}

// hear handles a line, and reports whether it is a message of grapnel-hook.
function hear(line) {
  let message
  try {
    message = JSON.parse(line)
  } catch {
    return false
  }
  if (typeof message?.type !== "string") return false
  heard = now()
  if (message.type !== "answer") return true
  failures = 0
  const isReply = typeof message.reply === "object" && message.reply !== null
  waiting.get(message.id)?.settle(isReply ? message.reply : undefined)
  return true
}

// ask sends an event to grapnel-hook and resolves to the reply: undefined if there is none in
// time, and null if the child ended before it replied.
function ask(event, until) {
  return new Promise((resolve) => {
    const it = start()
    if (!it || it.stdin.writableLength > MAX_QUEUE) return resolve(undefined)
    const id = String(++lastID)
    const asked = now()
    const timer = setTimeout(() => {
      const why = `it did not answer within ${DEADLINE} ms`
      if (heard < asked) return end(it, why) // it has sent no other message either
      complaint = why
      it.stdin.write(`{"type":"cancel","id":"${id}"}\n`)
      settle(undefined)
    }, until - asked)
    const settle = (reply) => {
      clearTimeout(timer)
      waiting.delete(id)
      resolve(reply)
    }
    waiting.set(id, { it, settle })
    it.stdin.write(`{"type":"event","id":"${id}","event":${event}}\n`)
  })
}

// plain copies the parts of a value that JSON can express: no functions, signals, bytes and
// cycles.
function plain(value, above = new Set()) {
  if (typeof value === "bigint") return String(value)
  if (typeof value === "function" || typeof value === "symbol") return undefined
  if (typeof value !== "object" || value === null) return value
  if (above.has(value) || secrets.has(value) || value instanceof AbortSignal || ArrayBuffer.isView(value)) return undefined
  above.add(value)
  const copy = copied(value, above)
  above.delete(value)
  return copy
}

function copied(value, above) {
  if (typeof value.toJSON === "function") {
    const told = value.toJSON()
    if (told !== value) return plain(told, above)
  }
  if (Array.isArray(value)) return value.map((v) => plain(v, above))
  const copy = members(value)
  for (const name of Object.keys(copy)) copy[name] = plain(copy[name], above)
  return copy
}

// members returns the readable members of a value.
function members(value) {
  const copy = Object.create(null) // a member can have any name
  for (const name of Object.keys(value ?? {})) {
    try {
      copy[name] = value[name]
    } catch {
      // this member cannot be read
    }
  }
  return copy
}

// heed converts a reply of grapnel-hook to the return value for the agent: an object, or
// undefined. block makes the object that blocks, for a hook that can block.
function heed({ exit, stdout, stderr }, block) {
  if (exit === 2) return block ? block(stderr || "blocked by grapnel") : say(stderr ?? "")
  if (exit) throw new Error(stderr || `it ended (${exit})`)
  say(stderr ?? "")
  return stdout?.trim() ? JSON.parse(stdout) : undefined
}

// consult sends an event and returns the value for the agent. It sends the short form of an
// event that is too long, if there is one.
async function consult(payload, block, short) {
  let event
  try {
    event = JSON.stringify(plain(payload))
    if (short && event.length > MAX_EVENT) event = JSON.stringify(plain(short))
  } catch (err) {
    // A call that cannot be encoded must not bypass a guard.
    const why = `cannot send the event to grapnel-hook: ${err.message}`
    say(`grapnel: error: ${why}`)
    return block?.(`grapnel could not judge this: ${why}`)
  }
  let why = ""
  try {
    const until = now() + DEADLINE
    let reply = await ask(event, until)
    if (reply === null) reply = await ask(event, until) // a kill of the child must not bypass a guard
    if (reply) return heed(reply, block)
    why = complaint || "it cannot be started"
  } catch (err) {
    why = err.message // the reply is unreadable, or is an error
  }
  why = `grapnel-hook did not answer: ${why}`
  const closed = CLOSED && block
  say(`grapnel: error: ${why}; ${closed ? "guarded events are blocked" : "the event continues unguarded"}`)
  return closed ? block(`grapnel could not judge this: ${why}`) : undefined
}

// hide prevents that a value is sent.
function hide(value) {
  if (typeof value === "object" && value !== null) secrets.add(value)
}

// keep stores a value in a map of limited size.
function keep(map, name, value) {
  map.delete(name)
  map.set(name, value)
  if (map.size > 1000) map.delete(map.keys().next().value)
}
