"""What lavacli asks of a LAVA server, in front of LAVA's own dispatcher: jobs are checked by its schema, run by
lava-run one after the other on one device, and their logs are handed out.

    lava_server.py DISPATCHER DEVICE.yaml DIR NUMBER    prints its port; NUMBER is the first job's
"""

import os
import subprocess
import sys
import threading
import xmlrpc.client
from xmlrpc.server import SimpleXMLRPCServer

import voluptuous
import yaml
from lava_common.schemas import validate

dispatcher, device, folder = sys.argv[1:4]
first = int(sys.argv[4])
jobs, one_at_a_time = {}, threading.Lock()


def run(number, definition):
    with one_at_a_time:
        jobs[number] = "Running"
        base = os.path.join(folder, str(number))
        with open(base + ".yaml", "w") as file:
            file.write(definition)
        words = [sys.executable, os.path.join(dispatcher, "usr/bin/lava-run"), "--job-id", str(number)]
        words += ["--output-dir", base + ".out", "--device", device, "--dispatcher", os.path.join(folder, "dispatcher.yaml"), base + ".yaml"]
        with open(base + ".log", "w") as log:
            subprocess.run(words, stdout=subprocess.DEVNULL, stderr=log, stdin=subprocess.DEVNULL)
        jobs[number] = "Finished"


def submit(definition):
    try:
        validate(yaml.safe_load(definition), strict=True)
    except voluptuous.Invalid as error:
        raise xmlrpc.client.Fault(400, f"Job submission failed: {error}.")
    number = first + len(jobs)
    jobs[number] = "Submitted"
    threading.Thread(target=run, args=(number, definition), daemon=True).start()
    return number


def show(number):
    names = ["description", "submitter", "device_type", "device", "pipeline", "tags", "visibility", "health"]
    times = dict.fromkeys(["submit_time", "start_time", "end_time"])
    state = jobs[int(number)]
    return {"id": number, "state": state, "health_check": False, **dict.fromkeys(names, ""), **times}


def logs(number, start=0, end=None):
    with open(os.path.join(folder, f"{number}.log"), errors="replace") as file:
        lines = ["- " + line for line in file if line.startswith("{")]
    return jobs[int(number)] == "Finished", "".join(lines[start:end])


with open(os.path.join(folder, "dispatcher.yaml"), "w") as file:
    yaml.safe_dump({"dispatcher_ip": "127.0.0.1", "dispatcher_download_dir": os.path.join(folder, "download")}, file)
server = SimpleXMLRPCServer(("127.0.0.1", 0), allow_none=True, logRequests=False)
server.RequestHandlerClass.rpc_paths = ()
server.register_function(lambda: "2023.01", "system.version")
for name, function in {"submit": submit, "show": show, "logs": logs}.items():
    server.register_function(function, f"scheduler.jobs.{name}")
print(server.server_address[1], flush=True)
server.serve_forever()
