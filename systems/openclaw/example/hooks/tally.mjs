// Counts the messages of each sender, as a plugin registers it.
import { appendFileSync } from 'node:fs';

api.registerHook({
  event: 'message-received',
  priority: 40,
  handler: async (ctx) => appendFileSync('tally.log', `${ctx.channel} ${ctx.senderId}\n`),
});
