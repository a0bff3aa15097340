#!/bin/sh
# Notes the name of the event, below the directory in which the agent works.
echo "$GRAPNEL_EVENT" >> events.log
