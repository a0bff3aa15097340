#!/bin/sh
# Notes each tool, the directory of the plugin, and whether it can see a key of the user.
echo "$TOOL_NAME ${FLYTO_PLUGIN_ROOT##*/} ${API_KEY:-no key}" >> ledger.log
