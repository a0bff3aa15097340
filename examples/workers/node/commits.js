#!/usr/bin/env node
// A worker that requires commit messages with a type of change:
// "fix: handle empty rows". A project lists its types in .commit-types, one per line.
//
//     worker: [node, commits.js]
'use strict';
const fs = require('node:fs/promises');
const path = require('node:path');
const readline = require('node:readline');

const usual = ['feat', 'fix', 'docs', 'test', 'perf', 'refactor', 'build', 'ci', 'chore', 'revert'];

// Events are judged concurrently: while one waits for a file, others continue.
async function judge(event) {
  const { cwd = '.', root = cwd } = event.session ?? {};
  for (const command of event.tool?.commands ?? []) {
    const subject = subjectOf(command);
    if (subject === undefined) continue;
    const types = await typesOf(root);
    const [, type] = /^(\w+)(?:\([^)]*\))?!?: \S/.exec(subject) ?? [];
    if (!types.includes(type)) {
      return { decision: 'block', reason: `Begin the commit message with one of ${types.join(', ')} and a colon, not with "${subject}".` };
    }
  }
  return {}; // no opinion
}

// Returns the first line of the -m or --message argument of a git commit.
function subjectOf(command) {
  const [, text] = /\bgit\b[^|;&]*\bcommit\b.*?\s(?:-[a-z]*m|--message)[ =]*("(?:\\.|[^"\\])*"|'[^']*'|\S+)/s.exec(command) ?? [];
  return text?.replace(/^["']|["']$/g, '').split('\n')[0];
}

async function typesOf(root) {
  const own = await fs.readFile(path.join(root, '.commit-types'), 'utf8').catch((error) => {
    if (error.code !== 'ENOENT') throw error;
    return '';
  });
  return own.split(/\s+/).filter(Boolean).concat(own.trim() ? [] : usual);
}

const say = (message) => process.stdout.write(JSON.stringify(message) + '\n');

say({ grapnel: 1, type: 'hello', name: 'commits', concurrency: 16, kinds: ['tool.before'] });
readline.createInterface({ input: process.stdin }).on('line', async (line) => {
  const { type, id, event } = JSON.parse(line);
  if (type !== 'event') return; // ignore hello, cancel and future message types
  try {
    say({ type: 'answer', id, outcome: await judge(event) });
  } catch (error) { // could not decide: on_error of the policy selects the decision
    say({ type: 'answer', id, error: String(error) });
  }
});
