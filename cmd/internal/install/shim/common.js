// The plugin of Grapnel: it tells grapnel-hook what the agent's hooks are told, and does
// what it answers. "grapnel install" writes it, and "grapnel uninstall" removes it.
import { spawn } from "node:child_process"

// Written by "grapnel install": how grapnel-hook is called, the events it is told of,
// whether a guard that cannot be asked blocks, and how long an answer may take.
const COMMAND = $COMMAND
const EVENTS = $EVENTS
const CLOSED = $CLOSED
const DEADLINE = $DEADLINE

// One grapnel-hook --serve for the whole process: started by the first event, started
// again when it has ended. Both sides speak lines of JSON.
const HELLO = Math.min(DEADLINE, 10_000) // milliseconds until it has to have said something
const MAX_QUEUE = 64 << 20 // characters that wait to be written; what comes then fails
const MAX_LINE = 256 << 20 // characters of a line; far less than what a text can hold
const MAX_EVENT = 8 << 20 // characters of an event that still has the part it can do without
const LOADED = Symbol.for("grapnel " + COMMAND.join(" "))
const waiting = new Map() // who is asked an event, and what to do with the answer, by its id
const secrets = new WeakSet() // what is told nobody, wherever it hangs
const said = new Set()
let child
let failures = 0
let notBefore = 0
let lastID = 0
let heard = 0
let complaint = ""

const now = () => performance.now() // the clock of the machine can be set back

// say tells the person what went wrong, each thing once.
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
  const mute = setTimeout(() => end(it, `it said nothing within ${HELLO} ms of its start`), HELLO)
  it.on("exit", () => clearTimeout(mute)).on("error", () => clearTimeout(mute))
  let rest = ""
  it.stdout.setEncoding("utf8").on("data", (chunk) => {
    const lines = chunk.split("\n")
    if (rest.length > MAX_LINE) return end(it, "it said a line without an end")
    rest += lines[0] // a long line comes in many
    if (lines.length === 1) return
    lines[0] = rest
    rest = lines.pop()
    for (const line of lines) if (hear(line)) clearTimeout(mute)
  })
  for (const part of [it.stdin, it.stdout, it.stderr]) part.on("error", () => {}) // it has ended, which is told by then
  // Neither keeps the agent alive: what does is the timer of an event under way.
  for (const part of [it, it.stdin, it.stdout, it.stderr]) part.unref?.()
  // This may be the same plugin, loaded again: what the one before has started is of no more use.
  globalThis[LOADED]?.()
  globalThis[LOADED] = retire
  child = it
  return it
}

// retire lets the child end when it has answered what it was asked.
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

// gone fails what the child has not answered. The next event starts another: at once
// after the first failure, then later and later. Of one that hung the next one is not
// asked: the agent would not wait for that as well.
function gone(it, why, hung = false) {
  if (child === it) {
    child = undefined
    complaint ||= why
    failures++
    notBefore = failures < 2 ? 0 : now() + Math.min(100 * 2 ** failures, 30_000)
  }
  for (const asked of [...waiting.values()]) if (asked.it === it) asked.settle(hung ? undefined : null)
}

// hear reports whether a line is a message of ours.
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

// ask tells grapnel-hook of an event, and gives what it answers: undefined when it does
// not until then, and null when it ended before it could.
function ask(event, until) {
  return new Promise((resolve) => {
    const it = start()
    if (!it || it.stdin.writableLength > MAX_QUEUE) return resolve(undefined)
    const id = String(++lastID)
    const asked = now()
    const timer = setTimeout(() => {
      const why = `it did not answer within ${DEADLINE} ms`
      if (heard < asked) return end(it, why) // nor anything else
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

// plain copies what JSON can say of a value: without functions, signals and bytes, and
// of a cycle nothing.
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

// members are those of a value that can be read.
function members(value) {
  const copy = Object.create(null) // a member can have any name
  for (const name of Object.keys(value ?? {})) {
    try {
      copy[name] = value[name]
    } catch {
      // who else asks for it gets an error, too
    }
  }
  return copy
}

// heed reduces what grapnel-hook answers to what the agent shall do: an object, or
// nothing; block makes the object that blocks, of a hook that can.
function heed({ exit, stdout, stderr }, block) {
  if (exit === 2) return block ? block(stderr || "blocked by grapnel") : say(stderr ?? "")
  if (exit) throw new Error(stderr || `it ended (${exit})`)
  say(stderr ?? "")
  return stdout?.trim() ? JSON.parse(stdout) : undefined
}

// consult asks, and gives what the agent shall do. Of what is too long it asks the short
// form, if there is one.
async function consult(payload, block, short) {
  let event
  try {
    event = JSON.stringify(plain(payload))
    if (short && event.length > MAX_EVENT) event = JSON.stringify(plain(short))
  } catch (err) {
    // Whoever makes a call that nobody can write down shall not get past a guard by that.
    const why = `the event cannot be told to grapnel-hook: ${err.message}`
    say(`grapnel: error: ${why}`)
    return block?.(`grapnel could not judge this: ${why}`)
  }
  let why = ""
  try {
    const until = now() + DEADLINE
    let reply = await ask(event, until)
    if (reply === null) reply = await ask(event, until) // killing it must not be a way past a guard
    if (reply) return heed(reply, block)
    why = complaint || "it cannot be started"
  } catch (err) {
    why = err.message // the answer cannot be read, or says so itself
  }
  why = `grapnel-hook did not answer: ${why}`
  const closed = CLOSED && block
  say(`grapnel: error: ${why}; ${closed ? "what it guards is blocked" : "nobody judged what happened"}`)
  return closed ? block(`grapnel could not judge this: ${why}`) : undefined
}

// hide keeps a value from being told.
function hide(value) {
  if (typeof value === "object" && value !== null) secrets.add(value)
}

// keep puts a value into a map of bounded size.
function keep(map, name, value) {
  map.delete(name)
  map.set(name, value)
  if (map.size > 1000) map.delete(map.keys().next().value)
}
