#!/usr/bin/env python3
"""A worker that keeps what an agent writes inside of the project's root.

    worker: [python3, inside.py]
    worker: INSIDE_ALSO=/tmp exec python3 inside.py     # directories, as in PATH
"""

import json
import os
import sys


def say(message):
    print(json.dumps(message), flush=True)


def outside(event):
    """The first path that is written outside of every directory that counts as inside."""
    session = event.get("session", {})
    cwd = session.get("cwd") or os.getcwd()
    also = os.environ.get("INSIDE_ALSO", "").split(os.pathsep)
    inside = [os.path.realpath(d) for d in [session.get("root") or cwd, *also] if d]
    for path in event.get("tool", {}).get("paths", []):
        if path.get("use") == "read":
            continue
        real = os.path.realpath(os.path.join(cwd, os.path.expanduser(path["path"])))
        if not any(os.path.commonpath([real, d]) == d for d in inside):
            return real
    return None


def judge(event):
    real = outside(event)
    if real is None:
        return {}  # no opinion
    return {"decision": "block", "reason": f"{real} is outside of the project. Write inside the project, or ask the user."}


sys.setrecursionlimit(20_000)  # a model can nest JSON, and Grapnel accepts up to 10,000 levels
say({"grapnel": 1, "type": "hello", "name": "inside", "kinds": ["tool.before"]})
for line in open(0, encoding="utf-8", errors="replace"):  # until Grapnel closes it
    message = json.loads(line)
    if message.get("type") != "event":
        continue  # ignore hello, cancel and future message types
    answer = {"type": "answer", "id": message["id"]}
    try:
        answer["outcome"] = judge(message["event"])
    except Exception as error:  # could not decide: on_error of the policy selects the decision
        answer["error"] = f"{type(error).__name__}: {error}"
    say(answer)
