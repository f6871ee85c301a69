"""What the interfaces of a node see, those of its pods aside, until so many datagrams with one tag were seen.

Arguments: what to look for, the tag, and that number.
`datagrams`: tags of datagrams to the port of tunnels and the port beside it, as the node itself receives them.
`tunnel`: which addresses ARP and neighbour discovery inside of tunnels between nodes are about, and tags of datagrams inside of them.
"""
import ipaddress, select, socket, struct, sys

what, last, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))


def datagram(frame):
    """Destination port and content of a UDP datagram; of neighbour discovery, the address it is about."""
    kind = struct.unpack("!H", frame[12:14])[0]
    if kind == 0x0806:
        return None, b"RED:" + str(ipaddress.ip_address(frame[38:42])).encode()
    if kind == 0x86DD and frame[20] == 58 and frame[54] in (135, 136):
        return None, b"RED:" + str(ipaddress.ip_address(frame[62:78])).encode()
    if kind == 0x0800 and frame[23] == 17:
        start = 14 + (frame[14] & 15) * 4
    elif kind == 0x86DD and frame[20] == 17:
        start = 54
    else:
        return None, b""
    return struct.unpack("!H", frame[start + 2 : start + 4])[0], frame[start + 8 :]


def seen(frame):
    port, content = datagram(frame)
    if what == "tunnel" and port == 6081:
        # A Geneve header says how many words of options it has.
        return datagram(content[8 + (content[0] & 63) * 4 :])[1]
    return content if what == "datagrams" and port in (6081, 6082) else b""


while rounds:
    if not select.select([raw], [], [], 60)[0]:
        sys.exit("the datagrams that end a round never came")
    frame, (device, *_) = raw.recvfrom(65536)
    content = b"" if device.startswith("nl") else seen(frame)
    if content.startswith(b"RED:"):
        tag = content[4:].split(b";")[0].decode()
        print(tag, flush=True)
        rounds -= tag == last
