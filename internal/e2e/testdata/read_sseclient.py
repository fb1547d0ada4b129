"""Reads a stream with sseclient-py, and comes back after every so many events, until the server says that nothing is left.

usage: read_sseclient.py URL EVENTS
"""

import json
import sys

import requests
import sseclient

url, most = sys.argv[1], int(sys.argv[2])
last = ""
while True:
    headers = {"Accept": "text/event-stream"}
    if last:
        headers["Last-Event-ID"] = last
    with requests.get(url, headers=headers, stream=True, timeout=20) as response:
        if response.status_code == 204:
            break
        response.raise_for_status()
        client = sseclient.SSEClient(response)
        seen = 0
        for event in client.events():
            last = event.id or last
            if event.data:
                print(json.dumps({"ID": event.id, "Name": event.event, "Data": event.data}), flush=True)
                seen += 1
            if seen == most:
                break
print(json.dumps({"Name": "204"}))
