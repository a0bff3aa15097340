// What a grapnel-hook --serve could say that is broken: the plugin's to survive.
import { createInterface } from "node:readline"

const way = process.argv[2]
const say = (message) => process.stdout.write(JSON.stringify(message) + "\n")
const block = { exit: 2, stderr: "Use trash." }

if (way === "endless") {
  const noise = "x".repeat(1 << 20)
  const more = () => process.stdout.write(noise, more)
  more()
}
if (way !== "endless") say({ grapnel: 1, type: "hello" })
for await (const line of createInterface({ input: process.stdin })) {
  const { id, type } = JSON.parse(line)
  if (type !== "event") continue
  const answer = (reply) => say({ type: "answer", id, reply })
  if (way === "fails") answer({ exit: 1, stderr: "internal error" })
  if (way === "text") answer("yes")
  if (way === "none") say({ type: "answer", id })
  if (way === "broken") answer({ stdout: "{" })
  if (way === "others") say({ type: "answer", id: "nobody", reply: {} })
  if (way === "others" || way === "twice") answer(block)
  if (way === "twice") answer({})
  if (way === "late") setTimeout(answer, 1000, block)
  if (way === "bytes") {
    for (const byte of Buffer.from(JSON.stringify({ type: "answer", id, reply: { exit: 2, stderr: "Üse trash." } }) + "\n")) {
      process.stdout.write(Buffer.of(byte))
      await new Promise(setImmediate)
    }
  }
}
