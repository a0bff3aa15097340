#!/bin/sh
# Refuses deployments. The event is JSON on standard input, and so is the answer on standard output.
if grep -q '"command":"deploy'; then
	echo '{"decision":"block","reason":"Deploy from the release branch."}'
fi
