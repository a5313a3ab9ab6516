"""A Jupyter front end: starts a kernel with the words of its command line before the kernel's own, and waits to be killed.

Prints one line of JSON: what a cell printed, whether another one was interrupted, and the kernel's process id.
"""

import atexit
import json
import sys
import time

from jupyter_client.manager import KernelManager

LIMIT_S = 60

# Sockets in the working directory: a port that was free when the front end looked may be another program's by now.
manager = KernelManager(transport="ipc", ip="kernel")
manager.kernel_spec.argv = [*sys.argv[1:], sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
manager.start_kernel()
# If this program fails, its reader must not wait for a kernel that has the same standard output.
atexit.register(manager.shutdown_kernel, now=True)
client = manager.client()
client.start_channels()
client.wait_for_ready(timeout=LIMIT_S)


def run(code, *, interrupt=False):
    """Run a cell; return what it printed, and the name of its error."""
    printed = []

    def on_output(message):
        if message["header"]["msg_type"] == "stream":
            printed.append(message["content"]["text"])
            # Once: a slow kernel sends a line in two parts, and a second signal would hit the handling of the first.
            if interrupt and len(printed) == 1:
                manager.interrupt_kernel()

    reply = client.execute_interactive(code, timeout=LIMIT_S, output_hook=on_output)
    return "".join(printed), reply["content"].get("ename")


printed = run("print(6 * 7)")[0]
pid = int(run("import os; print(os.getpid())")[0])
# Short sleeps: a signal that comes after the interpreter's last look at its signals and before the system call begins
# does not end the call. One long sleep would outlast this program's patience then, with any policy and with none.
NAP = "import time; print('asleep', flush=True); all(time.sleep(0.05) is None for _ in range(1200))"
_, error = run(NAP, interrupt=True)
print(json.dumps({"printed": printed, "interrupted": error == "KeyboardInterrupt", "pid": pid}), flush=True)
time.sleep(LIMIT_S)
