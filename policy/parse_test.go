package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel"
	"github.com/grapnel-dev/grapnel/internal/policy/fixture"
	"github.com/grapnel-dev/grapnel/policy"
)

// hook returns a policy with one hook that has these lines.
func hook(lines string) string {
	return "version: 1\nhooks:\n  - name: x\n    on: tool.before\n" + lines
}

// parseErrors lists policies and their error messages.
var parseErrors = map[string]struct{ in, want string }{
	"empty":                             {"", `p.yaml:1:1: the file is empty`},
	"not YAML":                          {"version: 1\n\thooks: []\n", "p.yaml:2:"},
	"not a mapping":                     {"- a\n", "p.yaml:1:1: the policy must be a mapping, not a list"},
	"no version":                        {"hooks: []\n", "p.yaml:1:1: the version is missing"},
	"wrong version":                     {"version: 2\n", "p.yaml:1:10: unknown version 2"},
	"unknown key":                       {"version: 1\nhoks: []\n", `p.yaml:2:1: unknown key "hoks" in the policy (did you mean "hooks"?)`},
	"key of a later version":            {hook("    wasm: x\n"), `p.yaml:5:5: "wasm" is not supported by this version`},
	"hooks no list":                     {"version: 1\nhooks: {a: b}\n", "p.yaml:2:9: hooks must be a list, not a mapping"},
	"no name":                           {"version: 1\nhooks:\n  - on: tool.before\n    block: no\n", "p.yaml:3:5: the hook has no name"},
	"twice":                             {hook("    block: a\n  - name: x\n    on: tool.before\n    block: b\n"), `p.yaml:6:5: hook "x" is defined twice, first in line 3`},
	"no event":                          {"version: 1\nhooks:\n  - name: x\n    block: a\n", `has no ` + "`on`"},
	"unknown event":                     {"version: 1\nhooks:\n  - name: x\n    on: tool.befor\n    block: a\n", `p.yaml:4:9: unknown event "tool.befor" (did you mean "tool.before"?)`},
	"native event, mistyped":            {"version: 1\nhooks:\n  - name: x\n    on: PreTolUse\n    block: a\n", `did you mean "PreToolUse"?`},
	"no action":                         {hook(""), `hook "x" has no action`},
	"two actions":                       {hook("    block: a\n    run: b\n"), `hook "x" has several actions: block, run`},
	"advice without a decision":         {hook("    context: a\n    advice: ls\n"), "`advice` needs `block` or `ask`"},
	"advice that is no command":         {hook("    block: a\n    advice: '$x'\n"), `p.yaml:6:13: the advice "$x" is not a command`},
	"after without an event":            {hook("    block: a\n    after: {times: 2}\n"), `p.yaml:6:13: after has no ` + "`event` (for example `event: tool.after`)"},
	"event of a recording":              {"version: 1\nhooks:\n  - name: x\n    on: session-clear\n    run: a\n", `p.yaml:4:9: unknown event "session-clear" (did you mean "session.start"?)`},
	"event with a subject":              {"version: 1\nhooks:\n  - name: x\n    on: block-tool\n    run: a\n", `p.yaml:4:9: unknown event "block-tool" (similar events: tool.before, tool.after, tool.failed)`},
	"after an unknown event":            {hook("    block: a\n    after: {event: tool.aftr}\n"), `p.yaml:6:20: unknown event "tool.aftr" (did you mean "tool.after"?)`},
	"after with an unknown key":         {hook("    block: a\n    after: {event: tool.after, withn: 3m}\n"), `unknown key "withn" in after (did you mean "within"?)`},
	"after too long ago":                {hook("    block: a\n    after: {event: tool.after, within: 745h}\n"), `p.yaml:6:40: events are kept for at most 744h`},
	"after never":                       {hook("    block: a\n    after: {event: tool.after, times: 0}\n"), `p.yaml:6:39: times must be between 1 and 50`},
	"after the same what":               {hook("    block: a\n    after: {event: tool.after, same: paht}\n"), `did you mean "path"?`},
	"after the same of no call":         {hook("    block: a\n    after: {event: session.start, same: call}\n"), `p.yaml:6:13: hook "x": session.start has no value to compare with ` + "`same: call`" + ` (` + "`same`" + ` compares tool calls)`},
	"after nothing":                     {hook("    block: a\n    after: []\n"), `after needs 1 to 8 earlier events, not 0`},
	"after, by two":                     {hook("    block: a\n    after: [{event: tool.after, by: user}, {event: tool.after}]\n"), `p.yaml:6:45: all steps of ` + "`after`" + ` need the same ` + "`by`"},
	"until without an event":            {hook("    block: a\n    after: {event: tool.after, until: {match: {tool: x}}}\n"), `until has no ` + "`event`"},
	"failed maybe":                      {hook("    block: a\n    match: {failed: maybe}\n"), `want true or false, not "maybe"`},
	"redact of nothing":                 {"version: 1\nredact: {}\n", `p.yaml:2:9: redact is empty (for example`},
	"redact of no place":                {"version: 1\nredact: {fields: [api_key]}\n", `p.yaml:2:19: "api_key" is not a JSON pointer to a place (write it as /name/inner`},
	"redact of an odd place":            {"version: 1\nredact: {fields: /a~b}\n", `"/a~b" is not a JSON pointer`},
	"redact of no pattern":              {"version: 1\nredact: {patterns: ['(']}\n", `the syntax is RE2`},
	"redact of all texts":               {"version: 1\nredact: {patterns: ['x*']}\n", `pattern "x*" matches the empty text`},
	"redact with an unknown key":        {"version: 1\nredact: {field: [/a]}\n", `unknown key "field" in redact (did you mean "fields"?)`},
	"pack that redacts":                 {"version: 1\npack: {version: 1}\nredact: {fields: [/a]}\n", "a pack cannot contain `redact`"},
	"retention of nothing":              {"version: 1\nretention: {}\n", "retention is empty (for example {days: 30, records: 500000, size: 1GB})"},
	"retention of a word":               {"version: 1\nretention: 30d\n", "p.yaml:2:12:"},
	"retention of no days":              {"version: 1\nretention: {days: 0}\n", `"0" is not a number of days that retention accepts (write a whole number from 1 to 36500)`},
	"retention of a list":               {"version: 1\nretention: {days: [1]}\n", "is not a number of days that retention accepts"},
	"retention of few records":          {"version: 1\nretention: {records: 10}\n", `"10" is not a number of Records that retention accepts (write a whole number from 1000 to 100000000)`},
	"retention without a unit":          {"version: 1\nretention: {size: 1000000000}\n", `"1000000000" is not a size with the unit MB, GB or TB that retention accepts (write for example 500MB or 1GB; the smallest size is 10MB, the largest 10TB)`},
	"retention of a small size":         {"version: 1\nretention: {size: 9MB}\n", `"9MB" is not a size`},
	"retention of a large size":         {"version: 1\nretention: {size: 99999999999999999999TB}\n", `is not a size`},
	"retention with an unknown key":     {"version: 1\nretention: {day: 30}\n", `unknown key "day" in retention (did you mean "days"?)`},
	"pack with retention":               {"version: 1\npack: {version: 1}\nretention: {days: 30}\n", "a pack cannot contain `retention`"},
	"revision of zero":                  {"version: 1\nrevision: 0\n", `p.yaml:2:11: want a positive whole number, not "0" (write a number that is greater`},
	"revision of a word":                {"version: 1\nrevision: v2\n", `want a positive whole number, not "v2"`},
	"revision with a fraction":          {"version: 1\nrevision: 1.5\n", `want a positive whole number, not "1.5"`},
	"expires in another order":          {"version: 1\nexpires: 31.12.2031\n", `p.yaml:2:10: want a date or a date and time in RFC 3339, not "31.12.2031" (write for example 2031-12-31`},
	"expires without a zone":            {"version: 1\nexpires: 2031-12-31T18:00:00\n", `want a date or a date and time in RFC 3339`},
	"expires on no day":                 {"version: 1\nexpires: 2031-02-30\n", `want a date or a date and time in RFC 3339`},
	"expires of a number":               {"version: 1\nexpires: 2031\n", `want a date or a date and time in RFC 3339`},
	"pack with a revision":              {"version: 1\npack: {version: 1}\nrevision: 3\n", "a pack cannot contain `revision`"},
	"groups of two words":               {hook("    block: a\n    groups: [canary, two words]\n"), `"two words" is not the name of a group of machines`},
	"pack with groups":                  {"version: 1\npack: {version: 1}\nhooks:\n  - {name: x, groups: a, on: tool.before, block: no}\n", "a pack cannot know the groups of machines"},
	"groups of nothing":                 {hook("    block: a\n    groups: []\n"), `p.yaml:6:13:`},
	"records of another word":           {"version: 1\nrecords: mask\n", `want one of full, masked, metadata, not "mask" (did you mean "masked"?)`},
	"records of nothing":                {"version: 1\nrecords: {}\n", `p.yaml:2:10: records is empty`},
	"records without what":              {"version: 1\nrecords: {drop: [tool.outputs]}\n", `p.yaml:2:18: "tool.outputs" is not a field of records (did you mean "tool.output"?)`},
	"records without a decision":        {"version: 1\nrecords: {drop: /decision}\n", "a record needs /decision (write `keep: metadata` to store no events)"},
	"records without hooks":             {"version: 1\nrecords: {drop: /hooks/*/*}\n", "a record needs /hooks/*/*"},
	"records of no pattern":             {"version: 1\nrecords: {replace: [{pattern: '(', with: x}]}\n", `the syntax is RE2`},
	"ca of a number":                    {"version: 1\nca: -1\n", "p.yaml:2:5: want the path of a file, not a number"},
	"group of a number":                 {"version: 1\nhooks:\n  - {name: x, on: tool.before, block: No., groups: [-1]}\n", "want the name of a group of machines, not a number"},
	"forward no list":                   {"version: 1\nrecords: {forward: 'postgres://db/x'}\n", "p.yaml:2:20: forward must be a list of targets"},
	"forward to nothing":                {"version: 1\nrecords: {forward: [{ca: /etc/ca.pem}]}\n", "p.yaml:2:22: the entry has no `to` (write for example to: postgres://db.example.com/grapnel"},
	"forward with a password":           {"version: 1\nrecords: {forward: [{to: 'postgres://u:hunter2@db/x'}]}\n", "p.yaml:2:26: a policy cannot contain a password (write the path of a file"},
	"forward with a token":              {"version: 1\nrecords: {forward: [{to: 'nats://hunter2@n'}]}\n", "a policy cannot contain a password"},
	"forward with a parameter":          {"version: 1\nrecords: {forward: [{to: 'postgres://db/x?sslPassword=hunter2'}]}\n", "a policy cannot contain a password"},
	"forward to another system":         {"version: 1\nrecords: {forward: [{to: 'kafka://k/x'}]}\n", `"kafka://k/x" does not begin with postgres:// or nats://`},
	"forward to no server":              {"version: 1\nrecords: {forward: [{to: 'nats:///x'}]}\n", "the target names no server"},
	"forward with a space":              {"version: 1\nrecords: {forward: [{to: 'postgres://db/x y'}]}\n", "the URL contains white space"},
	"forward twice":                     {"version: 1\nrecords: {forward: [{to: 'nats://n'}, {to: 'nats://n'}]}\n", "the target is listed twice"},
	"forward with a relative path":      {"version: 1\nrecords: {forward: [{to: 'nats://n', credentials: x}]}\n", `"x" is not an absolute path`},
	"records with an unknown key":       {"version: 1\nrecords: {drops: [prompt]}\n", `unknown key "drops" in records (did you mean "drop"?)`},
	"pack with records":                 {"version: 1\npack: {version: 1}\nrecords: full\n", "a pack cannot contain `records`"},
	"misspelt action":                   {hook("    blok: a\n"), `p.yaml:5:5: unknown key "blok" in a hook (did you mean "block"?)`},
	"block a notice":                    {"version: 1\nhooks:\n  - name: x\n    on: session.start\n    block: a\n", "p.yaml:4:9: hook \"x\": session.start cannot be blocked"},
	"ask too late":                      {"version: 1\nhooks:\n  - name: x\n    on: tool.after\n    ask: a\n", "tool.after cannot ask"},
	"allow where no prompt":             {"version: 1\nhooks:\n  - name: x\n    on: prompt.before\n    allow: true\n", "no permission prompt"},
	"set what may not":                  {"version: 1\nhooks:\n  - name: x\n    on: prompt.before\n    set: {tool.input: {}}\n", "prompt.before cannot change tool.input, only prompt (tool.input can be changed on tool.before, permission.before)"},
	"unknown field":                     {hook("    set: {tool.comand: x}\n"), `p.yaml:5:11: unknown field "tool.comand" (did you mean "tool.command"?)`},
	"context where none":                {"version: 1\nhooks:\n  - name: x\n    on: model.before\n    context: a\n", "no context can be added on model.before"},
	"context of nothing":                {"version: 1\nhooks:\n  - name: x\n    on: session.start\n    context: {}\n", "context needs exactly one of text, file and run"},
	"context async":                     {"version: 1\nhooks:\n  - name: x\n    on: session.start\n    context: {run: date}\n    async: true\n", "`async` and `speaks` need `run`, and cannot be used with a context"},
	"env of a text":                     {"version: 1\nhooks:\n  - name: x\n    on: session.start\n    context: {text: date}\n    env: A\n", "`env` needs `run`"},
	"limit of nothing":                  {hook("    limit: {per: 1m}\n"), "p.yaml:5:13: limit needs a `count` or a `sum` (for example {count: 20, per: 1m, by: session})"},
	"limit no mapping":                  {hook("    limit: 20\n"), "p.yaml:5:12: limit must be a mapping, not a number"},
	"limit of two":                      {hook("    limit: {count: 1, sum: tool.input.n, max: 3, per: 1m}\n"), "limit needs a `count` or a `sum`"},
	"limit without time":                {hook("    limit: {count: 1}\n"), "limit has no `per` (for example `per: 1m`)"},
	"limit of 0":                        {hook("    limit: {count: 0, per: 1m}\n"), "p.yaml:5:20: the count must be at least 1 (write `block` to forbid it)"},
	"limit of a half":                   {hook("    limit: {count: 0.5, per: 1m}\n"), `p.yaml:5:20: want a whole number, not "0.5"`},
	"limit too long":                    {hook("    limit: {count: 1, per: 8000h}\n"), "p.yaml:5:28: `per` must be between 1s and 744h"},
	"limit too short":                   {hook("    limit: {count: 1, per: 1ms}\n"), "`per` must be between 1s and 744h"},
	"limit by what":                     {hook("    limit: {count: 1, per: 1m, by: sesion}\n"), `p.yaml:5:36: want one of session, tool, agent, user, not "sesion" (did you mean "session"?)`},
	"limit by twice":                    {hook("    limit: {count: 1, per: 1m, by: [user, user]}\n"), "p.yaml:5:43: user is listed twice"},
	"limit by nothing":                  {hook("    limit: {count: 1, per: 1m, by: []}\n"), "the list is empty (omit `by` to count all events together)"},
	"limit then":                        {hook("    limit: {count: 1, per: 1m, then: allow}\n"), `want one of block, ask, not "allow"`},
	"limit with max":                    {hook("    limit: {count: 1, max: 2, per: 1m}\n"), "p.yaml:5:28: `max` needs `sum`"},
	"sum without max":                   {hook("    limit: {sum: tool.input.n, per: 1m}\n"), "limit has a `sum` without `max`"},
	"sum of at most 0":                  {hook("    limit: {sum: tool.input.n, max: 0, per: 1m}\n"), "the max must be more than 0"},
	"sum no number":                     {hook("    limit: {sum: tool.name, max: 1, per: 1m}\n"), "p.yaml:5:18: sum: the expression wants a number, got text"},
	"sum unknown name":                  {hook("    limit: {sum: tool.inptu.n, max: 1, per: 1m}\n"), `sum: unknown name tool.inptu (did you mean "tool.input"?)`},
	"sum of at most text":               {hook("    limit: {sum: tool.input.n, max: much, per: 1m}\n"), `want a number, not "much"`},
	"limit a notice":                    {"version: 1\nhooks:\n  - name: x\n    on: session.start\n    limit: {count: 1, per: 1m}\n", "session.start cannot be blocked"},
	"limit a stop":                      {"version: 1\nhooks:\n  - name: x\n    on: agent.after\n    limit: {count: 1, per: 1m}\n", "a limit would keep the agent from stopping on agent.after"},
	"limit asks too late":               {"version: 1\nhooks:\n  - name: x\n    on: tool.after\n    limit: {count: 1, per: 1m, then: ask}\n", "tool.after cannot ask"},
	"text no text":                      {"version: 1\nhooks:\n  - name: x\n    on: prompt.before\n    set: {prompt: [a]}\n", "p.yaml:5:19: prompt must be text"},
	"number for text":                   {hook("    set: {tool.command: 5}\n"), "p.yaml:5:25: tool.command must be text (put it in quotes)"},
	"no mode":                           {"version: 1\nhooks:\n  - name: x\n    on: toolset.before\n    set: {mode: all}\n", "mode must be auto, any or none"},
	"no answer":                         {"version: 1\nhooks:\n  - name: x\n    on: elicitation.before\n    set: {answer: {action: maybe}}\n", "answer must be an answer, {action: accept, content: {...}}"},
	"no call":                           {"version: 1\nhooks:\n  - name: x\n    on: tool.after\n    set: {tool.next: {input: {}}}\n", "tool.next must be a call, {name: ..., input: {...}}"},
	"no list of tools":                  {"version: 1\nhooks:\n  - name: x\n    on: toolset.before\n    set: {tools: [1]}\n", "tools must be a list of names of tools"},
	"no flag":                           {"version: 1\nhooks:\n  - name: x\n    on: agent.after\n    set: {memory.clear: yes please}\n", "memory.clear must be true or false"},
	"input no object":                   {hook("    set: {tool.input: text}\n"), "p.yaml:5:23: tool.input must be an object"},
	"places that meet":                  {hook("    set: {tool.input.a: 1, tool.input.a.b: 2}\n"), "p.yaml:5:28: tool.input.a is already set (merge the two)"},
	"place and whole":                   {hook("    set: {tool.input: {}, tool.input.a: 2}\n"), "p.yaml:5:27: tool.input is already set as a whole"},
	"place in a text":                   {hook("    set: {tool.command.a: 1}\n"), `unknown field "tool.command.a" (tool.command is text and has no members)`},
	"place of nothing":                  {hook("    set: {tool.input.: 1}\n"), `unknown field "tool.input."`},
	"set of no event":                   {hook("    set: {tool.input.a: 1, tool.output: 2}\n"), `p.yaml:4:9: hook "x": none of its events permits changing tool.output (tool.output can be changed on tool.after, tool.failed)`},
	"fields of no event":                {hook("    fields: [tool.input, prompt]\n    replace: [{pattern: a, with: b}]\n"), "permits changing prompt (prompt can be changed on prompt.before)"},
	"replace where no text":             {"version: 1\nhooks:\n  - name: x\n    on: agent.after\n    fields: memory.clear\n    replace: [{pattern: a, with: b}]\n", "p.yaml:5:13: memory.clear is not a text field"},
	"pack with a program for context":   {"version: 1\npack: {version: 1}\nhooks:\n  - name: x\n    on: session.start\n    context: {run: date}\n", "a pack cannot run programs"},
	"context file and text":             {"version: 1\nhooks:\n  - name: x\n    on: session.start\n    context: {file: a, text: b}\n", "context needs exactly one of text, file and run"},
	"unknown match key":                 {hook("    block: a\n    match: {comand: rm}\n"), `p.yaml:6:13: unknown key "comand" in match (did you mean "command"?)`},
	"empty match":                       {hook("    block: a\n    match: {}\n"), "the match is empty"},
	"empty list":                        {hook("    block: a\n    match: {tool: []}\n"), "the list is empty"},
	"bad glob":                          {hook("    block: a\n    match: {tool: '[a'}\n"), `p.yaml:6:19: "[a" is not a glob`},
	"bad path pattern":                  {hook("    block: a\n    match: {path: 'a/{b'}\n"), "is not a path pattern"},
	"bad words":                         {hook("    block: a\n    match: {words: 'delete_*'}\n"), `p.yaml:6:20: "delete_*" never matches`},
	"bad regexp":                        {hook("    block: a\n    match: {text: '/a(/'}\n"), "p.yaml:6:19: invalid regular expression"},
	"bad command":                       {hook("    block: a\n    match: {command: '--force'}\n"), "p.yaml:6:22:"},
	"unknown agent":                     {hook("    block: a\n    match: {agent: clade}\n"), `unknown agent "clade"`},
	"bad when":                          {hook("    block: a\n    when: tool.name ==\n"), "p.yaml:6:11: when: the expression is incomplete, at column 13"},
	"when no bool":                      {hook("    block: a\n    when: kind\n"), "p.yaml:6:11: when:"},
	"when unknown member":               {hook("    block: a\n    when: kind == 'x' && tool.comand == 'x'\n"), "unknown name tool.comand (did you mean \"tool.command\"?)"},
	"when unknown name":                 {hook("    block: a\n    when: tol.name == 'x'\n"), "unknown name tol"},
	"when nested loops":                 {hook("    block: a\n    when: any(tool.commands, any(tool.paths, true))\n"), "a loop inside a loop"},
	"when too long":                     {hook("    block: a\n    when: " + strings.Repeat("true && ", 600) + "true\n"), "more than 4096"},
	"duration without unit":             {hook("    run: a\n    timeout: 5\n"), `p.yaml:6:14: "5" is not a duration (write a number with a unit`},
	"timeout of nothing":                {hook("    run: a\n    timeout: 0s\n"), "more than 0"},
	"bad on_error":                      {hook("    run: a\n    on_error: close\n"), `want one of open, closed, ask, not "close" (did you mean "closed"?)`},
	"priority no number":                {hook("    run: a\n    priority: high\n"), "want a whole number"},
	"async without run":                 {hook("    block: a\n    async: true\n"), "`async` needs `run`"},
	"replace no list":                   {hook("    replace: a\n"), "replace must be a list"},
	"replace of an empty list":          {hook("    replace: []\n"), "p.yaml:5:14: the list is empty"},
	"replace without with":              {hook("    replace: [{pattern: a}]\n"), "replace needs `pattern` and `with`"},
	"replace of nothing":                {hook("    replace: [{pattern: 'a*', with: b}]\n"), "matches the empty text"},
	"name with separator":               {"version: 1\nhooks:\n  - name: a::b\n    on: tool.before\n    block: a\n", "is not a valid hook name"},
	"speaks an unknown language":        {hook("    run: a\n    speaks: claud\n"), `unknown hook format "claud"`},
	"speaks without run":                {hook("    block: a\n    speaks: claude\n"), "`speaks` needs `run`"},
	"speaks of a worker":                {hook("    worker: a\n    speaks: claude\n"), "`speaks` needs `run`, and cannot be used with a worker"},
	"worker of nothing":                 {hook("    worker: []\n"), "the list is empty"},
	"worker and run":                    {hook("    worker: a\n    run: a\n"), "has several actions: worker, run"},
	"sandbox of a rule":                 {hook("    block: a\n    sandbox: true\n"), "p.yaml:6:14: hook \"x\": `sandbox` needs `run`"},
	"sandbox of a text":                 {hook("    run: a\n    sandbox: strict\n"), "p.yaml:6:14: want true or false"},
	"sandbox with an unknown key":       {hook("    run: a\n    sandbox: {reads: [.]}\n"), `p.yaml:6:15: unknown key "reads" in sandbox (did you mean "read"?)`},
	"sandbox of a pattern":              {hook("    run: a\n    sandbox: {read: ['src/*']}\n"), "a sandbox needs paths"},
	"sandbox of an unknown word":        {hook("    run: a\n    sandbox: {read: ['{rot}/x']}\n"), `only {root} and {cwd} are replaced`},
	"sandbox that leaves the root":      {hook("    run: a\n    sandbox: {write: ['{root}/../x']}\n"), "a path that begins with {root} must stay below it"},
	"sandbox of a user":                 {hook("    run: a\n    sandbox: {read: ['~root/x']}\n"), "only ~ is replaced by a home directory"},
	"sandbox of an empty path":          {hook("    run: a\n    sandbox: {read: ['']}\n"), "want text"},
	"sandbox with a wrong net":          {hook("    run: a\n    sandbox: {net: loopback}\n"), "want one of none, any"},
	"sandbox with a port of words":      {hook("    run: a\n    sandbox: {net: [https]}\n"), `"https" is not a port`},
	"sandbox with port 0":               {hook("    run: a\n    sandbox: {net: [0]}\n"), `"0" is not a port`},
	"sandbox with a large port":         {hook("    run: a\n    sandbox: {net: [65536]}\n"), `"65536" is not a port`},
	"default sandbox with a mistake":    {"version: 1\ndefaults: {sandbox: {required: maybe}}\n", "p.yaml:2:32: want true or false"},
	"pack with a worker":                {"version: 1\npack: {version: 1}\nhooks: [{name: x, on: tool.before, worker: [a]}]\n", "p.yaml:3:44: a pack cannot run programs"},
	"http and run":                      {hook("    http: https://a.example\n    run: a\n"), "has several actions: http, run"},
	"http without URL":                  {hook("    http: {body: plain}\n"), "p.yaml:5:12: http has no `url`"},
	"http no URL":                       {hook("    http: policy.example.com\n"), "p.yaml:5:11: this is not a URL of a server"},
	"http number":                       {hook("    http: 5\n"), "this is not a URL of a server"},
	"http other scheme":                 {hook("    http: {url: 'ftp://a.example/'}\n"), "this is not a URL of a server"},
	"http without host":                 {hook("    http: https:///x\n"), "this is not a URL of a server"},
	"http with a user":                  {hook("    http: https://me:pw@a.example/\n"), "contains a user name or a password"},
	"http with a space":                 {hook("    http: 'https://a.example/ x'\n"), "white space"},
	"http unknown key":                  {hook("    http: {url: 'https://a.example', secrets: x}\n"), `unknown key "secrets" in http (did you mean "secret"?)`},
	"http body":                         {hook("    http: {url: 'https://a.example', body: all}\n"), `want one of plain, summary, not "all"`},
	"http with a secret that is none":   {hook("    http: {url: 'https://a.example', secret: hunter2}\n"), "this is not a secret (env:NAME, file:PATH, or whsec_"},
	"http with a secret of digits":      {hook("    http: {url: 'https://a.example', secret: 12345}\n"), "this is not a secret (env:NAME, file:PATH, or whsec_"},
	"http with a key that is none":      {hook("    http: {url: 'https://a.example', secret: whsec_a}\n"), "secret: this is not a key"},
	"http with a variable's no name":    {hook("    http: {url: 'https://a.example', secret: 'env:A-B'}\n"), `"A-B" is not the name of a variable`},
	"http no header":                    {hook("    http: {url: 'https://a.example', headers: [a]}\n"), "headers must be a mapping"},
	"http breaker that never opens":     {hook("    http: {url: 'https://a.example', breaker: {failures: 0}}\n"), "want a number from 1 to 1000"},
	"http breaker that never closes":    {hook("    http: {url: 'https://a.example', breaker: {cooldown: 24h}}\n"), "want at most 1h"},
	"http too slow":                     {hook("    http: https://a.example\n    timeout: 31s\n"), "the timeout of a server is at most 30s"},
	"http speaks":                       {hook("    http: https://a.example\n    speaks: claude\n"), "`speaks` and `env` need `run`"},
	"http with env":                     {hook("    http: https://a.example\n    env: A\n"), "`speaks` and `env` need `run`"},
	"notify and block":                  {hook("    notify: https://a.example\n    block: a\n"), "has several actions: notify, block"},
	"notify without URL":                {hook("    notify: {ordered: true}\n"), "p.yaml:5:14: notify has no `url` (for example"},
	"notify no URL":                     {hook("    notify: hooks.example.com\n"), "p.yaml:5:13: this is not a URL of a server"},
	"notify a list":                     {hook("    notify: ['https://a.example']\n"), "want text, not"},
	"notify with a user":                {hook("    notify: https://me:pw@a.example/\n"), "contains a user name or a password"},
	"notify unknown key":                {hook("    notify: {url: 'https://a.example', order: true}\n"), `p.yaml:5:40: unknown key "order" in notify (did you mean "ordered"?)`},
	"notify with a breaker":             {hook("    notify: {url: 'https://a.example', breaker: {failures: 1}}\n"), `unknown key "breaker" in notify`},
	"notify with an envelope":           {hook("    notify: {url: 'https://a.example', envelope: plain}\n"), `unknown key "envelope" in notify`},
	"notify body":                       {hook("    notify: {url: 'https://a.example', body: cloudevent}\n"), `want one of plain, cloudevents, summary, slack, teams, ntfy, not "cloudevent" (did you mean "cloudevents"?)`},
	"ntfy without a topic":              {hook("    notify: {url: 'https://ntfy.example', body: ntfy}\n"), "`body: ntfy` needs the URL of a topic"},
	"notify url and smtp":               {hook("    notify: {url: 'https://a.example', smtp: {server: 'a.example:25', from: a@b, to: c@d}}\n"), "`url` has no effect with `smtp`"},
	"notify text for a program":         {hook("    notify: {url: 'https://a.example', text: tool.name}\n"), "`text` needs `smtp`, or `body: slack`, `teams` or `ntfy`"},
	"body with a wrong expression":      {hook("    notify: {url: 'https://a.example', body: {a: [tool.name, '1 +']}}\n"), "p.yaml:5:62: body: the expression is incomplete, at column 4"},
	"body with an unknown name":         {hook("    notify: {url: 'https://a.example', body: {a: orgin.host}}\n"), `unknown name orgin (did you mean "origin"?), at column 1`},
	"body that is empty":                {hook("    notify: {url: 'https://a.example', body: {}}\n"), "a mapping or list of a body must not be empty"},
	"body with an empty list":           {hook("    notify: {url: 'https://a.example', body: {a: []}}\n"), "a mapping or list of a body must not be empty"},
	"body with too many parts":          {hook("    notify: {url: 'https://a.example', body: {a: [" + strings.Repeat("1, ", 400) + "2]}}\n"), "the body has more than 200 parts"},
	"title that is no text":             {hook("    notify: {url: 'https://a.example', body: slack, title: 1 + 1}\n"), "title: the expression wants text, got a whole number"},
	"smtp without recipients":           {hook("    notify: {smtp: {server: 'a.example:25', from: a@b}}\n"), "smtp has no `to`"},
	"smtp without a port":               {hook("    notify: {smtp: {server: a.example, from: a@b, to: c@d}}\n"), "want the host and port of a server"},
	"smtp with a bad address":           {hook("    notify: {smtp: {server: 'a.example:25', from: a@b, to: [team]}}\n"), "this is not an e-mail address"},
	"smtp with a password":              {hook("    notify: {smtp: {server: 'a.example:25', from: a@b, to: c@d, user: x, password: hunter2}}\n"), "a policy must not contain a password (write file:PATH or env:NAME)"},
	"smtp without a user":               {hook("    notify: {smtp: {server: 'a.example:25', from: a@b, to: c@d, password: file:x}}\n"), "`user` and `password` need each other"},
	"notify with a secret that is none": {hook("    notify: {url: 'https://a.example', secret: hunter2}\n"), "this is not a secret (env:NAME, file:PATH, or whsec_"},
	"notify with a key that is none":    {hook("    notify: {url: 'https://a.example', secret: [env:A, whsec_a]}\n"), "secret: this is not a key"},
	"notify ordered perhaps":            {hook("    notify: {url: 'https://a.example', ordered: session}\n"), `want true or false, not "session"`},
	"notify too slow":                   {hook("    notify: {url: 'https://a.example', timeout: 31s}\n"), "p.yaml:5:49: the timeout of a server is at most 30s"},
	"notify later than that":            {hook("    notify: https://a.example\n    timeout: 31s\n"), "p.yaml:6:14: the timeout of a server is at most 30s"},
	"notify with two timeouts":          {hook("    notify: {url: 'https://a.example', timeout: 3s}\n    timeout: 3s\n"), "p.yaml:6:14: hook \"x\" has two timeouts (remove one of them)"},
	"notify by nobody":                  {hook("    notify: {url: 'https://a.example', max_in_flight: 0}\n"), "max_in_flight: want a number from 1 to 100"},
	"async with an opinion":             {hook("    run: a\n    async: true\n    on_error: closed\n"), "p.yaml:7:15: hook \"x\": `on_error: closed` has no effect with `async: true`"},
	"http async with an opinion":        {hook("    http: https://a.example\n    async: true\n    on_error: closed\n"), "`on_error: closed` has no effect with `async: true`"},
	"key redact":                        {hook("    redact: true\n"), "write `mask: true`"},
	"field tool.cmd":                    {hook("    set: {tool.cmd: x}\n"), `did you mean "tool.command"?`},
	"command as a regexp":               {"version: 1\nhooks: [{name: x, on: tool.before, match: {command: /rm/}, block: a}]\n", "a command pattern has words and no regular expressions"},
	"block at the start":                {"version: 1\nhooks: [{name: x, on: session.start, block: a}]\n", "at session.start, `context` adds text for the model"},
	"notify with an opinion":            {hook("    notify: https://a.example\n    on_error: closed\n"), "p.yaml:6:15: hook \"x\": `on_error` has no effect with `notify`"},
	"notify with a message":             {hook("    notify: https://a.example\n    message: a\n"), "`message` has no effect with `notify`"},
	"notify waited for":                 {hook("    notify: https://a.example\n    async: false\n"), "`async` has no effect with `notify`"},
	"notify speaks":                     {hook("    notify: https://a.example\n    speaks: claude\n"), "`speaks` has no effect with `notify`"},
	"notify with env":                   {hook("    notify: https://a.example\n    env: A\n"), "`env` has no effect with `notify`"},
	"notify in a sandbox":               {hook("    notify: https://a.example\n    sandbox: true\n"), "`sandbox` needs `run`"},
	"pack with notify":                  {"version: 1\npack: {version: 1}\nhooks: [{name: x, on: tool.before, notify: 'https://a.example'}]\n", "p.yaml:3:44: a pack cannot notify servers"},
	"pack with http":                    {"version: 1\npack: {version: 1}\nhooks: [{name: x, on: tool.before, http: 'https://a.example'}]\n", "p.yaml:3:42: a pack cannot call servers"},
	"later action":                      {hook("    wasm: x\n"), `"wasm" is not supported by this version`},
	"use no list":                       {"version: 1\nuse: destructive\n", "p.yaml:2:6: use must be a list of packs, not text"},
	"use of nothing":                    {"version: 1\nuse: ['']\n", "p.yaml:2:7: want text"},
	"use without a pack":                {"version: 1\nuse: [{mode: observe}]\n", "p.yaml:2:8: the entry has no `pack`"},
	"use with an unknown key":           {"version: 1\nuse: [{pack: a, exept: [b]}]\n", `p.yaml:2:17: unknown key "exept" in use (did you mean "except"?)`},
	"use with a wrong mode":             {"version: 1\nuse: [{pack: a, mode: observed}]\n", `want one of enforce, observe, not "observed" (did you mean "observe"?)`},
	"use that allows nothing":           {"version: 1\nuse: [{pack: a, allow: {}}]\n", "p.yaml:2:24: allow must be a mapping from hooks of the pack"},
	"use that allows a list":            {"version: 1\nuse: [{pack: a, allow: [b]}]\n", "allow must be a mapping from hooks of the pack"},
	"use that allows by no match":       {"version: 1\nuse: [{pack: a, allow: {b: []}}]\n", `the hook "b" allows nothing`},
	"use that allows by text":           {"version: 1\nuse: [{pack: a, allow: {b: rm -rf reports}}]\n", "match must be a mapping, not text"},
	"use that allows with a wrong key":  {"version: 1\nuse: [{pack: a, allow: {b: {comand: rm}}}]\n", `unknown key "comand" in match (did you mean "command"?)`},
	"use that allows a wrong pattern":   {"version: 1\nuse: [{pack: a, allow: {b: {command: 'rm | x'}}}]\n", "p.yaml:2:38: "},
	"use that allows what it leaves":    {"version: 1\nuse: [{pack: a, except: b, allow: {b: {command: rm}}}]\n", "the hook \"b\" is in `except` and in `allow`"},
	"use with empty exceptions":         {"version: 1\nuse: [{pack: a, except: []}]\n", "the list is empty"},
	"pack used twice":                   {"version: 1\nuse:\n  - a\n  - {pack: a, mode: observe}\n", `p.yaml:4:6: pack "a" is used twice, first in line 3`},
	"pack without version":              {"version: 1\npack: {}\n", "the pack has no version"},
	"pack with a version of words":      {"version: 1\npack: {version: two}\n", "want a whole number"},
	"pack that uses":                    {"version: 1\npack: {version: 1}\nuse: [a]\n", "p.yaml:3:6: a pack cannot contain `use`"},
	"pack with defaults":                {"version: 1\npack: {version: 1}\nstrict: true\n", "p.yaml:3:9: a pack cannot contain `strict`"},
	"pack that runs":                    {"version: 1\npack: {version: 1}\nhooks: [{name: x, on: tool.before, run: [a]}]\n", "p.yaml:3:41: a pack cannot run programs"},
	"pack with a file":                  {"version: 1\npack: {version: 1}\nhooks: [{name: x, on: session.start, context: {file: a}}]\n", "a pack cannot use other files"},
	"pack that loads":                   {"version: 1\npack: {version: 1}\nload: [claude-code]\n", "p.yaml:3:7: a pack cannot contain `load`"},
	"pack with networks":                {"version: 1\npack: {version: 1}\nnetworks: [10.0.0.0/8]\n", "p.yaml:3:11: a pack cannot contain `networks`"},
	"load no list":                      {"version: 1\nload: claude-code\n", "p.yaml:2:7: load must be a list of formats, not text"},
	"load of nothing known":             {"version: 1\nload: [claud-code]\n", `p.yaml:2:8: unknown format "claud-code" (did you mean "claude-code"?)`},
	"load without a format":             {"version: 1\nload: [{file: x}]\n", "p.yaml:2:9: the entry has no `format`"},
	"load with another key":             {"version: 1\nload: [{format: flyto, path: x}]\n", `unknown key "path" in load`},
	"load twice":                        {"version: 1\nload: [flyto, claude-code, flyto]\n", "p.yaml:2:28: flyto is loaded twice, first in line 2"},
	"load of no pattern":                {"version: 1\nload: [{format: flyto, file: '[x'}]\n", `"[x" is not a path pattern`},
	"networks no list":                  {"version: 1\nnetworks: 10.0.0.0/8\n", "p.yaml:2:11: networks must be a list of networks"},
	"networks of nothing":               {"version: 1\nnetworks: []\n", "networks must be a list of networks"},
	"secret of no rule":                 {hook("    match: {secret: github-tokn}\n    block: x\n"), `unknown rule for secrets "github-tokn" (did you mean "github-token"?)`},
	"secret false":                      {hook("    match: {secret: false}\n    block: x\n"), `secret must be true or a list of rule ids`},
	"mask a notice":                     {"version: 1\nhooks:\n  - {name: x, on: session.end, mask: true}\n", "session.end cannot be changed"},
	"mask of nothing":                   {hook("    mask: []\n"), "the list is empty"},
	"pack with secrets":                 {"version: 1\npack: {version: 1}\nsecrets: {disable: jwt}\n", "a pack cannot contain `secrets`"},
	"secrets, unknown key":              {"version: 1\nsecrets: {rule: x}\n", `unknown key "rule" in secrets (did you mean "rules"?)`},
	"secrets allow all":                 {"version: 1\nsecrets: {allow: /a*/}\n", "matches the empty text"},
	"secrets disable nothing":           {"version: 1\nsecrets: {disable: jwtt}\n", `unknown rule for secrets "jwtt"`},
	"networks of an address":            {"version: 1\nnetworks: [10.0.0.1]\n", `"10.0.0.1" is neither a network nor a full name`},
	"networks of a short name":          {"version: 1\nnetworks: [collector]\n", `"collector" is neither`},
	"networks below a top level":        {"version: 1\nnetworks: ['*.internal']\n", `"*.internal" is neither`},
	"networks of all names":             {"version: 1\nnetworks: ['*']\n", `"*" is neither`},
	"networks with a star inside":       {"version: 1\nnetworks: ['a.*.internal']\n", `"a.*.internal" is neither`},
	"networks of a URL":                 {"version: 1\nnetworks: ['https://a.internal']\n", `"https://a.internal" is neither`},
	"networks with a port":              {"version: 1\nnetworks: ['a.internal:443']\n", `"a.internal:443" is neither`},
	"networks of an empty label":        {"version: 1\nnetworks: ['a..internal']\n", `"a..internal" is neither`},
	"ca of nothing":                     {"version: 1\nca: ''\n", "p.yaml:2:5: want text, not an empty text"},
	"ca of a list":                      {"version: 1\nca: [a.pem]\n", "want text, not a list"},
	"pack with ca":                      {"version: 1\npack: {version: 1}\nca: a.pem\n", "a pack cannot contain `ca`"},
	"networks no network":               {"version: 1\nnetworks: [ten/8]\n", `p.yaml:2:12: "ten/8" is neither a network nor a full name`},
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for name, tt := range parseErrors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, errs := policy.Parse("p.yaml", []byte(tt.in))
			for _, err := range errs {
				if strings.Contains(err.Error(), tt.want) {
					return
				}
			}
			t.Errorf("Parse(%q) says %v, want %q", tt.in, errs, tt.want)
		})
	}
}

func TestParseCollectsAll(t *testing.T) {
	t.Parallel()
	_, errs := policy.Parse("p.yaml", []byte("version: 3\nhooks:\n  - nam: x\n    on: nothing\n    blok: a\n"))
	if len(errs) < 4 {
		t.Errorf("Parse finds %d mistakes, want all: %v", len(errs), errs)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("version: 1\nhooks:\n  - name: x\n    on: [tool.before]\n    match: {command: rm -rf, not: {tool: a}}\n    except: [{path: b}]\n    block: c\n"))
	f.Add([]byte("version: 1\nhooks:\n  - {name: x, on: Stop, when: \"kind == ''\", run: [a, b], timeout: 1s}\n"))
	f.Add([]byte("version: 1\nhooks:\n  - {name: x, on: Stop, worker: [a], env: B, async: true}\n"))
	f.Add([]byte("version: 1\nuse: [a, {pack: b, except: c, mode: observe}]\ndefaults: {timeout: 1s}\n"))
	f.Add([]byte("version: 1\npack: {version: 2}\nhooks:\n  - {name: x, on: tool.after, replace: [{pattern: a, with: ~}], fields: tool.output}\n"))
	f.Add([]byte("version: 1\nhooks:\n  - {name: x, on: tool.before, match: {agent: 1, secret: 2}, http: {url: 'https://a.example', secret: 3}}\n"))
	f.Add([]byte("version: 1\nnetworks: [10.0.0.0/+8, 'f::/1', '*.a.b']\nca: a\ngrants: [{source: ~/a, may: run}]\nhooks:\n  - {name: x, on: tool.before, set: {tool.command: a, tool.input.b: 1}}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, errs := policy.Parse("p.yaml", data)
		if len(errs) > 0 {
			return
		}
		if err := fixture.CheckSchema(t, string(data)); err != nil && !strings.Contains(err.Error(), "cannot unmarshal number") {
			t.Errorf("Parse accepts %q and the schema does not: %v", data, err)
		}
		if len(p.Use) > 0 {
			return
		}
		if _, err := policy.Build(p, fixture.Source("p.yaml"), fixture.NoCommand); err != nil {
			t.Errorf("Parse accepts %q and Build does not: %v", data, err)
		}
	})
}

// The event names of all systems are accepted.
//
// Proves: IC-01, MC-01, OC-01, GC-01
func TestKinds(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]grapnel.Kind{
		"tool.before":       {grapnel.ToolBefore},
		"PreToolUse":        {grapnel.ToolBefore},
		"BeforeTool":        {grapnel.ToolBefore},
		"beforeToolCall":    {grapnel.ToolBefore},
		"PreToolCall":       {grapnel.ToolBefore},
		"pre_tool_use":      {grapnel.ToolBefore},
		"before_tool_call":  {grapnel.ToolBefore},
		"before-tool-call":  {grapnel.ToolBefore},
		"after-tool-call":   {grapnel.ToolAfter, grapnel.ToolFailed},
		"transformResponse": {grapnel.ResponseBefore},
		"beforetoolcall":    nil,
	} {
		if got := policy.Kinds(name); !slices.Equal(got, want) {
			t.Errorf("Kinds(%s) = %v, want %v", name, got, want)
		}
		if err := fixture.CheckSchema(t, "version: 1\nhooks: [{name: n, on: "+name+", block: no}]"); (err == nil) != (want != nil) {
			t.Errorf("the schema says of the event %s: %v", name, err)
		}
	}
	text := "version: 1\nhooks: [{name: n, on: [beforeToolCall, message-sending], block: no}]"
	p, errs := policy.Parse("p.yaml", []byte(text))
	if len(errs) > 0 || !slices.Equal(p.Hooks[0].On, []grapnel.Kind{grapnel.ToolBefore, grapnel.MessageBefore}) {
		t.Errorf("parsed %+v, %v", p.Hooks, errs)
	}
}
