"""A slow connection to the Southbound database: it carries everything until the server has confirmed that a port was claimed, and then nothing
more from the server. Arguments: the port to listen on, address and port of the server."""
import json, select, socket, sys

listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
decoder = json.JSONDecoder()


def messages(buffer):
    """Whole messages at the start of a text, each with its own text, and the rest."""
    found = []
    while buffer:
        try:
            message, end = decoder.raw_decode(buffer)
        except ValueError:
            break
        found.append((message, buffer[:end]))
        buffer = buffer[end:].lstrip()
    return found, buffer


def carry(client, server):
    from_client, from_server, claim = "", "", None
    while True:
        ready = select.select([client, server], [], [])[0]
        if client in ready:
            data = client.recv(1 << 20)
            if not data:
                return
            found, from_client = messages(from_client + data.decode())
            for message, text in found:
                if message.get("method") == "transact" and '"Port_Binding"' in text and '"chassis"' in text:
                    claim = message["id"]
            server.sendall(data)
        if server in ready:
            data = server.recv(1 << 20)
            if not data:
                return
            found, from_server = messages(from_server + data.decode())
            for message, text in found:
                client.sendall(text.encode())
                if claim is not None and message.get("id") == claim:
                    print("claimed", flush=True)
                    select.select([], [], [])  # for ever, until this is killed


while True:
    client = listener.accept()[0]
    carry(client, socket.create_connection((sys.argv[2], int(sys.argv[3]))))
