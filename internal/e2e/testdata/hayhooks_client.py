"""A client of hayhooks 2.x that knows nothing of Windrow, with the standard library alone.

    hayhooks_client.py URL [URL...]

The URLs are servers of the same deployments; each reconnect goes to the next. Every check that fails ends it with an error.
"""

import http.client
import itertools
import json
import re
import sys
import time
import urllib.parse


class Server:
    def __init__(self, urls):
        self.turns = itertools.cycle([urllib.parse.urlsplit(url).netloc for url in urls])

    def open(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(next(self.turns), timeout=30)
        headers = dict(headers or {})
        if body is not None:
            body = json.dumps(body)
            headers["Content-Type"] = "application/json"
        connection.request(method, path, body, headers)
        return connection, connection.getresponse()

    def call(self, method, path, body=None, headers=None):
        connection, response = self.open(method, path, body, headers)
        with connection_of(connection):
            return response.status, response.headers, json.loads(response.read())

    def submit(self, pipeline, body, key=None):
        return self.call("POST", f"/{pipeline}/run-durable", body, {"Idempotency-Key": key} if key else None)

    def poll(self, links, *statuses):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            status, _, execution = self.call("GET", links["self"])
            equal(status, 200)
            if execution["status"] in statuses:
                return execution
            time.sleep(0.05)
        raise AssertionError(f"not {statuses} after 30 s: {execution}")

    def follow(self, links, cut_after):
        """Yields the events of a stream, and loses its connection after every so many of them."""
        last_id = None
        while True:
            headers = {"Accept": "text/event-stream"}
            if last_id is not None:
                headers["Last-Event-ID"] = last_id
            connection, response = self.open("GET", links["stream"], None, headers)
            with connection_of(connection):
                equal((response.status, response.headers.get_content_type()), (200, "text/event-stream"))
                equal(response.headers["X-Accel-Buffering"], "no")
                for seen, (event_id, event, data) in enumerate(events(response), start=1):
                    if event_id is not None:
                        last_id = event_id
                    yield event_id, event, data
                    if event in ("completed", "failed", "canceled"):
                        return
                    if seen == cut_after:
                        break


class connection_of:
    def __init__(self, connection):
        self.connection = connection

    def __enter__(self):
        return self.connection

    def __exit__(self, *_):
        self.connection.close()


def events(response):
    equal(response.readline(), b": heartbeat\n")
    event_id, event, data = None, None, []
    for raw in response:
        line = raw.decode().rstrip("\n")
        name, _, value = line.partition(": ")
        if line == "" and data:
            yield event_id, event, json.loads("\n".join(data))
            event_id, event, data = None, None, []
        elif name == "id":
            event_id = value
        elif name == "event":
            event = value
        elif name == "data":
            data.append(value)


def equal(got, want):
    if got != want:
        raise AssertionError(f"{got!r}, want {want!r}")


def submissions(server):
    status, headers, first = server.submit("echo", {"b": [1, 2], "a": "é"}, key="order-17")
    equal((status, headers["Location"], headers["Idempotent-Replay"]), (202, first["links"]["self"], None))
    equal((first["status"], first["attempt"], first["sequence"], first["result"]), ("queued", 0, 1, None))
    done = server.poll(first["links"], "completed")
    equal(done["result"], {"b": [1, 2], "a": "é"})
    equal(sorted(done["links"]), ["cancel", "resume", "self", "stream"])
    status, headers, again = server.submit("echo", {"a": "é", "b": [1, 2]}, key="order-17")
    equal((status, headers["Idempotent-Replay"], again), (200, "true", done))
    status, _, refused = server.submit("echo", {"a": "e"}, key="order-17")
    equal((status, list(refused)), (409, ["detail"]))
    status, _, refused = server.submit("story", {"chunks": "many"})
    equal((status, refused["detail"][0]["loc"]), (422, ["body", "chunks"]))
    equal(server.call("GET", "/echo/executions/" + 32 * "0")[::2], (404, {"detail": "Execution not found"}))


def answers(server):
    _, _, asked = server.submit("approval", {"question": "Ship it?"})
    waiting = server.poll(asked["links"], "waiting")
    equal((waiting["waiting"]["kind"], waiting["waiting"]["message"]), ("approval", "Ship it?"))
    equal(waiting["waiting"]["expected_input_schema"]["type"], "object")
    resume = waiting["links"]["resume"]
    status, _, refused = server.call("POST", resume, {"approved": "yes"})
    equal((status, refused["detail"][0]["loc"]), (422, ["body", "approved"]))
    status, _, resumed = server.call("POST", resume, {"approved": True})
    equal((status, resumed["waiting"]), (202, None))
    equal(server.call("POST", resume, {"approved": True})[0], 409)
    equal(server.poll(asked["links"], "completed")["result"], {"question": "Ship it?", "approved": True})


def retries(server):
    _, _, tried = server.submit("flaky", {"retries": 1})
    done = server.poll(tried["links"], "completed", "failed")
    equal((done["status"], done["attempt"], done["error"]), ("completed", 2, None))


def cancellations(server):
    _, _, told = server.submit("story", {"chunks": 1000, "seconds": 600})
    server.poll(told["links"], "running")
    status, _, asked = server.call("POST", told["links"]["cancel"])
    equal((status in (200, 202), asked["cancellation_requested_at"] is not None), (True, True))
    *_, (event_id, event, data) = server.follow(told["links"], cut_after=1000)
    equal((event_id, event, data), (None, "canceled", server.poll(told["links"], "canceled")))
    equal(server.call("POST", told["links"]["cancel"])[0], 200)


def streams(server):
    _, _, told = server.submit("story", {"chunks": 200, "seconds": 2})
    seen = list(server.follow(told["links"], cut_after=7))
    *chunks, (event_id, event, data) = seen
    equal((event_id, event, data["result"]["chunks"]), (None, "completed", 200))
    equal([(event, data["payload"]["index"], data["attempt"]) for _, event, data in chunks], [("chunk", i, 1) for i in range(200)])
    equal([id for id, _, _ in chunks if not re.fullmatch(r"[0-9]{1,20}-[0-9]{1,20}", id)], [])
    places = [tuple(map(int, id.split("-"))) for id, _, _ in chunks]
    equal(places, sorted(set(places)))
    equal([(p["sequence"], p["kind"]) for p in data["progress"]], [(i, "paragraph") for i in range(1, 11)])


if __name__ == "__main__":
    for check in (submissions, answers, retries, cancellations, streams):
        check(Server(sys.argv[1:]))
        print("ok:", check.__name__)
