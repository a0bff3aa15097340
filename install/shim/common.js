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
const waiting = new Map() // what to do with the answer to an event, by its id
const said = new Set()
let child
let mute // ends a child that says nothing
let failures = 0
let notBefore = 0
let lastID = 0
let heard = 0
let complaint = ""

// say tells the person what went wrong, each thing once.
function say(text) {
  text = text.trim()
  if (!text || said.has(text) || said.size > 100) return
  said.add(text)
  process.stderr.write(text + "\n")
}

function start() {
  if (child || Date.now() < notBefore) return child
  complaint = ""
  const it = spawn(COMMAND[0], [...COMMAND.slice(1), "--serve"], { stdio: "pipe", windowsHide: true })
  it.on("error", (err) => gone(it, err.message))
  it.on("exit", (code, signal) => gone(it, `it ended (${signal ?? code})`))
  it.stdin.on("error", () => {}) // it has ended, which is told by then
  it.stderr.setEncoding("utf8").on("data", (text) => {
    complaint = (complaint + text).slice(-500)
  })
  let rest = ""
  it.stdout.setEncoding("utf8").on("data", (chunk) => {
    if (!chunk.includes("\n")) {
      rest += chunk // a long line comes in many
      return
    }
    const lines = (rest + chunk).split("\n")
    rest = lines.pop()
    for (const line of lines) hear(line)
  })
  // Neither keeps the agent alive: what does is the timer of an event under way.
  for (const part of [it, it.stdin, it.stdout, it.stderr]) part.unref?.()
  mute = setTimeout(() => end(it, `it said nothing within ${HELLO} ms of its start`), HELLO)
  child = it
  return it
}

// end kills a child that hangs.
function end(it, why) {
  complaint = why
  it.kill("SIGKILL")
  gone(it, why, undefined)
}

// gone fails what the child has not answered. The next event starts another: at once
// after the first failure, then later and later.
function gone(it, why, answer = null) {
  if (child !== it) return
  child = undefined
  clearTimeout(mute)
  complaint ||= why
  failures++
  notBefore = failures < 2 ? 0 : Date.now() + Math.min(100 * 2 ** failures, 30_000)
  for (const settle of [...waiting.values()]) settle(answer)
}

function hear(line) {
  let message
  try {
    message = JSON.parse(line)
  } catch {
    return // no message of ours
  }
  heard = Date.now()
  clearTimeout(mute)
  if (message?.type !== "answer") return
  failures = 0
  waiting.get(message.id)?.(message.reply)
}

// ask tells grapnel-hook of an event, and gives what it answers: undefined when it does
// not, and null when it ended before it could.
function ask(payload) {
  return new Promise((resolve) => {
    const event = JSON.stringify(plain(payload))
    const it = start()
    if (!it || it.stdin.writableLength > MAX_QUEUE) return resolve(undefined)
    const id = String(++lastID)
    const asked = Date.now()
    const timer = setTimeout(() => {
      const why = `it did not answer within ${DEADLINE} ms`
      if (heard < asked) return end(it, why) // nor anything else
      complaint = why
      it.stdin.write(`{"type":"cancel","id":"${id}"}\n`)
      waiting.get(id)(undefined)
    }, DEADLINE)
    waiting.set(id, (reply) => {
      clearTimeout(timer)
      waiting.delete(id)
      resolve(reply)
    })
    it.stdin.write(`{"type":"event","id":"${id}","event":${event}}\n`)
  })
}

// plain copies what JSON can say of a value: without functions, signals and bytes, and
// of a cycle nothing.
function plain(value, above = []) {
  if (typeof value === "bigint") return String(value)
  if (typeof value === "function" || typeof value === "symbol") return undefined
  if (typeof value !== "object" || value === null) return value
  if (above.includes(value) || value instanceof AbortSignal || ArrayBuffer.isView(value)) return undefined
  const inside = [...above, value]
  if (typeof value.toJSON === "function") return plain(value.toJSON(), inside)
  if (Array.isArray(value)) return value.map((v) => plain(v, inside))
  return Object.fromEntries(Object.entries(value).map(([name, v]) => [name, plain(v, inside)]))
}

// consult asks, and reduces the answer to what the agent shall do: an object, or
// nothing; block makes the object that blocks, of a hook that can.
async function consult(payload, block) {
  let why = ""
  try {
    let reply = await ask(payload)
    if (reply === null) reply = await ask(payload) // killing it must not be a way past a guard
    if (reply?.exit === 2) return block?.(reply.stderr || "blocked by grapnel")
    say(reply?.stderr ?? "")
    if (reply) return reply.stdout ? JSON.parse(reply.stdout) : undefined
    why = complaint || "it cannot be started"
  } catch (err) {
    why = err.message // the event cannot be written, or the answer not be read
  }
  why = `grapnel-hook did not answer: ${why}`
  const closed = CLOSED && block
  say(`grapnel: error: ${why}; ${closed ? "what it guards is blocked" : "nobody judged what happened"}`)
  return closed ? block(`grapnel could not judge this: ${why}`) : undefined
}

// keep puts a value into a map of bounded size.
function keep(map, name, value) {
  map.delete(name)
  map.set(name, value)
  if (map.size > 1000) map.delete(map.keys().next().value)
}
