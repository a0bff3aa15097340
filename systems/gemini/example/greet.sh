#!/bin/sh
echo '{"hookSpecificOutput":{"hookEventName":"SessionStart","additionalContext":"Today is harbor day."}}'
