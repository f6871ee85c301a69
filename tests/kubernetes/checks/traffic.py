"""Traffic that must not notice: a stream of numbered lines over one TCP connection and requests over new connections, each a hundred times a
second, and packets, a hundred times or as often as is asked for.

All run in the pods by themselves, so they go on while kubelets, runtimes and the API are away."""

import re

from checks import pods
from world.cluster import wait

# A request over a new connection each time; one that is not answered within five seconds is lost.
ASK = """
while :; do
    answer=
    exec 3<>/dev/tcp/ADDRESS/8080 && printf "GET /hostname HTTP/1.0\\r\\n\\r\\n" >&3 && read -r -t 5 answer <&3
    case $answer in HTTP*200*) echo answered ;; *) echo lost ;; esac
    exec 3>&-
    sleep 0.005
done
"""


class Traffic:
    """From `client` to `server`, from the moment it is made until `stop`."""

    def __init__(self, every=0.01):
        self.address = pods.pair()[0]
        background("server", "nc -l -p 9000 >/tmp/stream")
        wait(lambda: ":9000" in pods.execute("server", "ss", "-ltn"), "the server to listen")
        background("client", f"i=0; while echo $i; do i=$((i+1)); sleep 0.01; done | nc {self.address} 9000")
        # The first packet of all between two nodes may be lost while they get to know each other.
        pods.execute("client", "ping", "-c", "3", self.address)
        background("client", f"exec ping -n -i {every} {self.address} >/tmp/probe")
        pods.execute("client", "bash", "-c", f"cat >/tmp/ask <<'END'\n{ASK.replace('ADDRESS', self.address)}\nEND")
        background("client", "exec bash /tmp/ask >/tmp/requests")
        wait(lambda: "answered" in pods.execute("client", "head", "-n", "1", "/tmp/requests"), "the first request to be answered")
        wait(lambda: pods.execute("server", "head", "-n", "1", "/tmp/stream"), "the stream to begin")

    def stop(self):
        """How many packets were sent, which were lost, and how many requests and lines came; a lost request, a gap or an end of the stream is
        a failure."""
        running = pods.execute("client", "ps", "-eo", "args")
        for command in (f"nc {self.address} 9000", "bash /tmp/ask", "ping -n"):
            assert command in running, f"{command} ended before it was stopped"
        pods.execute("client", "pkill", "-INT", "-x", "ping")
        answered = [int(number) for number in re.findall(r"icmp_seq=(\d+)", pods.execute("client", "cat", "/tmp/probe"))]
        # What was sent after the last answer may still be on its way.
        sent = answered[-1]
        lost = sorted(set(range(1, sent + 1)) - set(answered))
        lines = pods.execute("server", "cat", "/tmp/stream").split("\n")[:-1]
        assert lines == [str(i) for i in range(len(lines))], "the stream has a gap"
        requests = pods.execute("client", "cat", "/tmp/requests").split()
        assert "lost" not in requests, f"{requests.count('lost')} of {len(requests)} requests were lost"
        return sent, lost, len(requests), len(lines)


def background(pod, command):
    """A command in a pod that nobody waits for."""
    pods.execute(pod, "sh", "-c", f"setsid sh -c '{command}' >/dev/null 2>&1 </dev/null &")
