"""Prints the tag of every frame that arrives, until so many rounds have ended. Arguments: the device and the number of rounds."""
import re, select, socket, sys

device, rounds = sys.argv[1], int(sys.argv[2])
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
raw.bind((device, 0))
while rounds:
    if not select.select([raw], [], [], 60)[0]:
        sys.exit("the datagrams that end a round never came")
    frame, (_, _, kind, _, _) = raw.recvfrom(65536)
    if kind == socket.PACKET_OUTGOING:
        continue
    for tag in re.findall(rb"RED:([a-z0-9_]+);", frame):
        print(tag.decode(), flush=True)
        rounds -= tag == b"end"
