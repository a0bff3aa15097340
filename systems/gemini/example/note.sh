#!/bin/sh
# Notes the name of the event, which is JSON on standard input.
sed 's/.*"hook_event_name":"\([A-Za-z]*\)".*/\1/' >> events.log
