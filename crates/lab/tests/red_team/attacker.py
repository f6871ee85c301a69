"""Sends frames that a pod may not send, each with a tag by which a victim recognises it, and then datagrams that it may send.

Its argument is JSON: `frames` (names of functions below), `own`, `router`, `neighbour` and `victim` (`mac`, `ip4`, `ip6` each) and `ends`
(addresses that get the datagram that ends a round).
"""
import ipaddress, json, socket, struct, sys

told = json.loads(sys.argv[1])
own, router, neighbour, victim = told["own"], told["router"], told["neighbour"], told["victim"]


def mac(text):
    return bytes.fromhex(text.replace(":", ""))


def ip(text):
    return ipaddress.ip_address(text).packed


def link_local(text):
    m = bytearray(mac(text))
    m[0] ^= 2
    return str(ipaddress.ip_address(bytes.fromhex("fe80" + "00" * 6) + bytes(m[:3]) + b"\xff\xfe" + bytes(m[3:])))


OWN, OWN4, OWN6, OWN_LINK = own["mac"], own["ip4"], own["ip6"], link_local(own["mac"])
ALL, ALL6 = "ff:ff:ff:ff:ff:ff", "33:33:00:00:00:01"


def total(data):
    data += b"\0" * (len(data) % 2)
    words = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while words >> 16:
        words = (words & 0xFFFF) + (words >> 16)
    return ~words & 0xFFFF


def ethernet(to, kind, body, by=OWN):
    return mac(to) + mac(by) + struct.pack("!H", kind) + body


def ipv4(by, to, protocol, body, ttl=64, options=b""):
    head = struct.pack("!BBHHHBBH4s4s", 0x45 + len(options) // 4, 0, 20 + len(options) + len(body), 7, 0, ttl, protocol, 0, ip(by), ip(to)) + options
    return head[:10] + struct.pack("!H", total(head)) + head[12:] + body


def ipv6(by, to, protocol, body, hops=255, extension=None):
    first = protocol
    if extension is not None:
        body, first = bytes([protocol]) + extension + body, 0
    return struct.pack("!IHBB16s16s", 6 << 28, len(body), first, hops, ip(by), ip(to)) + body


def icmpv6(by, to, kind, body, code=0, **more):
    text = struct.pack("!BBH", kind, code, 0) + body
    pseudo = ip(by) + ip(to) + struct.pack("!II", len(text), 58)
    text = text[:2] + struct.pack("!H", total(pseudo + text)) + text[4:]
    return ipv6(by, to, 58, text, **more)


def udp(by, to, source, port, body):
    text = struct.pack("!HHHH", source, port, 8 + len(body), 0) + body
    family6 = ":" in to
    pseudo = ip(by) + ip(to) + (struct.pack("!II", len(text), 17) if family6 else struct.pack("!BBH", 0, 17, len(text)))
    text = text[:6] + struct.pack("!H", total(pseudo + text) or 0xFFFF) + text[8:]
    return ipv6(by, to, 17, text, 64) if family6 else ipv4(by, to, 17, text)


def tagged(name):
    """An option of neighbour discovery that no host knows, with the tag in it."""
    text = f"RED:{name};".encode()
    size = -(-(len(text) + 2) // 8)
    return bytes([253, size]) + text.ljust(size * 8 - 2, b"\0")


def advertisement(name):
    prefix = bytes([3, 4, 64, 0xC0]) + struct.pack("!III", 3600, 3600, 0) + ip("2001:db8:bad::")
    return struct.pack("!BBHII", 64, 0, 1800, 0, 0) + bytes([1, 1]) + mac(OWN) + prefix + tagged(name)


def router_advertisement(name):
    return ethernet(ALL6, 0x86DD, icmpv6(OWN_LINK, "ff02::1", 134, advertisement(name)))


def router_advertisement_to_one(name):
    return ethernet(victim["mac"], 0x86DD, icmpv6(OWN_LINK, link_local(victim["mac"]), 134, advertisement(name)))


def router_advertisement_behind_options(name):
    return ethernet(ALL6, 0x86DD, icmpv6(OWN_LINK, "ff02::1", 134, advertisement(name), extension=b"\0\1\4\0\0\0\0"))


def router_advertisement_as_the_router(name):
    return ethernet(ALL6, 0x86DD, icmpv6(link_local(router["mac"]), "ff02::1", 134, advertisement(name)))


def redirect(name):
    body = struct.pack("!I", 0) + ip(OWN_LINK) + ip("2001:db8::1") + tagged(name)
    return ethernet(victim["mac"], 0x86DD, icmpv6(OWN_LINK, link_local(victim["mac"]), 137, body))


def dhcp_offer(name, to_mac, to):
    body = bytes([2, 1, 6, 0]) + b"\1\2\3\4" + b"\0" * 228 + b"\x63\x82\x53\x63" + b"\x35\1\2" + b"\x38\x18" + f"RED:{name};".encode().ljust(24, b"\0") + b"\xff"
    return ethernet(to_mac, 0x0800, udp(OWN4, to, 67, 68, body))


def dhcp_server(name):
    return dhcp_offer(name, ALL, "255.255.255.255")


def dhcp_server_to_one(name):
    return dhcp_offer(name, victim["mac"], victim["ip4"])


def dhcp_v6_server(name):
    body = b"\2\1\2\3" + b"\0\x0d" + struct.pack("!HH", 26, 0) + f"RED:{name};".encode().ljust(24, b"\0")
    return ethernet(victim["mac"], 0x86DD, udp(OWN_LINK, link_local(victim["mac"]), 547, 546, body))


def dhcp_v6_server_to_all(name):
    body = b"\2\1\2\3" + b"\0\x0d" + struct.pack("!HH", 26, 0) + f"RED:{name};".encode().ljust(24, b"\0")
    return ethernet(ALL6, 0x86DD, udp(OWN_LINK, "ff02::1", 547, 546, body))


def arp(name, operation, address, to_mac, to, by=OWN, says=OWN):
    body = struct.pack("!HHBBH6s4s6s4s", 1, 0x0800, 6, 4, operation, mac(says), ip(address), mac(to_mac), ip(to))
    return ethernet(to_mac, 0x0806, body + f"RED:{name};".encode().ljust(60, b"\0"), by)


def gratuitous_arp_for_the_router(name):
    return arp(name, 1, router["ip4"], ALL, router["ip4"])


def arp_reply_for_the_router(name):
    return arp(name, 2, router["ip4"], victim["mac"], victim["ip4"])


def gratuitous_arp_for_a_neighbour(name):
    return arp(name, 2, neighbour["ip4"], ALL, neighbour["ip4"])


def arp_with_a_foreign_hardware_address(name):
    return arp(name, 2, OWN4, victim["mac"], victim["ip4"], says=neighbour["mac"])


def neighbour_advertisement(name, target, by=None, says=OWN):
    body = struct.pack("!I", 0x20000000) + ip(target) + bytes([2, 1]) + mac(says) + tagged(name)
    return ethernet(ALL6, 0x86DD, icmpv6(by or OWN_LINK, "ff02::1", 136, body))


def advertisement_for_the_router(name):
    return neighbour_advertisement(name, router["ip6"])


def advertisement_for_the_routers_link_address(name):
    return neighbour_advertisement(name, link_local(router["mac"]))


def advertisement_for_a_neighbour(name):
    return neighbour_advertisement(name, neighbour["ip6"])


def advertisement_with_a_foreign_hardware_address(name):
    return neighbour_advertisement(name, OWN6, says=neighbour["mac"])


def solicitation_as_a_neighbour(name):
    body = struct.pack("!I", 0) + ip(victim["ip6"]) + bytes([1, 1]) + mac(OWN) + tagged(name)
    return ethernet(victim["mac"], 0x86DD, icmpv6(neighbour["ip6"], victim["ip6"], 135, body))


def igmp(name, group):
    body = struct.pack("!BBH4s", 0x11, 100, 0, ip(group)) + b"\2\x7d\0\0" + f"RED:{name};".encode().ljust(40, b"\0")
    body = body[:2] + struct.pack("!H", total(body)) + body[4:]
    to = "224.0.0.1" if group == "0.0.0.0" else group
    return ethernet("01:00:5e" + "".join(f":{b:02x}" for b in (ip(to)[1] & 127, ip(to)[2], ip(to)[3])), 0x0800, ipv4(OWN4, to, 2, body, 1, b"\x94\4\0\0"))


def igmp_query(name):
    return igmp(name, "0.0.0.0")


def igmp_query_of_a_group(name):
    return igmp(name, "239.1.2.3")


def mld_query(name):
    body = struct.pack("!HH16s", 1000, 0, b"\0" * 16) + b"\2\x7d\0\0" + f"RED:{name};".encode()
    return ethernet(ALL6, 0x86DD, icmpv6(OWN_LINK, "ff02::1", 130, body, hops=1, extension=b"\0\5\2\0\0\1\0"))


def datagram(name, by, to, by_mac=OWN):
    return ethernet(victim["mac"], 0x86DD if ":" in to else 0x0800, udp(by, to, 9, 9, f"RED:{name};".encode()), by_mac)


def source_of_a_neighbour(name):
    return datagram(name, neighbour["ip4"], victim["ip4"])


def source_of_a_neighbour_v6(name):
    return datagram(name, neighbour["ip6"], victim["ip6"])


def source_of_the_router(name):
    return datagram(name, router["ip4"], victim["ip4"])


def source_of_the_router_v6(name):
    return datagram(name, router["ip6"], victim["ip6"])


def source_of_the_routers_link_address(name):
    return datagram(name, link_local(router["mac"]), victim["ip6"])


def source_outside(name):
    return datagram(name, "192.0.2.7", victim["ip4"])


def source_of_a_service(name):
    return datagram(name, "10.96.0.1", victim["ip4"])


def source_none(name):
    return datagram(name, "0.0.0.0", victim["ip4"])


def foreign_ethernet_address(name):
    return datagram(name, OWN4, victim["ip4"], neighbour["mac"])


def tag_of_a_vlan(name):
    return ethernet(ALL6, 0x8100, struct.pack("!HH", 7, 0x86DD) + icmpv6(OWN_LINK, "ff02::1", 134, advertisement(name)))


def honest_datagram(name):
    return datagram(name, OWN4, victim["ip4"])


def honest_datagram_v6(name):
    return datagram(name, OWN6, victim["ip6"])


def honest_multicast(name):
    return ethernet(ALL6, 0x86DD, udp(OWN_LINK, "ff02::1", 9, 9, f"RED:{name};".encode()))


def multicast_in_a_frame_for_one(name):
    return datagram(name, OWN4, "224.0.0.1")


def broadcast_in_a_frame_for_one(name):
    return datagram(name, OWN4, "255.255.255.255")


def multicast_in_a_frame_for_one_v6(name):
    return datagram(name, OWN6, "ff02::1")


raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
raw.bind(("eth0", 0))
for name in told["frames"]:
    raw.send(globals()[name](name))
for address in told["ends"]:
    socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM).sendto(b"RED:end;", (address, 9))
