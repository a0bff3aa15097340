#!/bin/sh
echo '{"hookSpecificOutput":{"hookEventName":"BeforeAgent","additionalContext":"Low tide at noon."}}'
