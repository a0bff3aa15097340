#!/bin/sh
echo '{"decision":"allow","hookSpecificOutput":{"hookEventName":"BeforeModel","llm_request":{"messages":[{"role":"user","content":"Say: tide table ready."}]}}}'
