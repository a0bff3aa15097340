// Notes what a handler of each type gets: the members of ctx that the document names.
import { appendFileSync } from 'node:fs';

const members = {
  'before-agent-start': ['runId', 'config', 'workspaceDir', 'agentDir'],
  'message-received': ['sessionKey', 'channel', 'senderId', 'direction'],
  'before-tool-call': ['runId', 'toolName', 'args'],
  'after-tool-call': ['runId', 'toolName', 'result'],
  'session-end': ['sessionKey', 'channel'],
};

for (const event of Object.keys(members)) {
  const handler = (ctx) => {
    const shown = Object.fromEntries(members[event].map((name) => [name, ctx[name]]));
    appendFileSync('context.log', `${event} ${JSON.stringify(shown)}\n`);
  };
  api.registerHook({ event, handler });
}
