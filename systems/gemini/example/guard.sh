#!/bin/sh
if grep -q '"file_path":"docs/'; then
	echo '{"decision":"allow","reason":"inside docs/"}'
else
	echo '{"decision":"block","reason":"outside docs/"}'
fi
