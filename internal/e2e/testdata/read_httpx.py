"""Reads a stream with httpx-sse, and comes back after every so many events, until the server says that nothing is left.

usage: read_httpx.py URL EVENTS
"""

import json
import sys

import httpx
from httpx_sse import connect_sse

url, most = sys.argv[1], int(sys.argv[2])
last = ""
with httpx.Client(timeout=20) as client:
    while True:
        headers = {"Last-Event-ID": last} if last else {}
        with connect_sse(client, "GET", url, headers=headers) as source:
            if source.response.status_code == 204:
                break
            source.response.raise_for_status()
            seen = 0
            for event in source.iter_sse():
                last = event.id
                if event.data:
                    print(json.dumps({"ID": event.id, "Name": event.event, "Data": event.data}), flush=True)
                    seen += 1
                if seen == most:
                    break
print(json.dumps({"Name": "204"}))
