#!/bin/sh
# Masks account numbers in the response, which is the last member of the event.
sed 's/DE[0-9]*/DE**/g
s/.*"llm_response":\(.*\)}$/{"hookSpecificOutput":{"hookEventName":"AfterModel","llm_response":\1}}/'
