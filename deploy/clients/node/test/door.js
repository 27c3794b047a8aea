// A door before the API that tests can close: it passes bytes, counts connections and requests, loses answers, or answers itself.
import net from "node:net";

export async function openDoor(url) {
  const { hostname, port } = new URL(url);
  const door = { connections: 0, requests: 0, lose: 0, answers: [], sockets: new Set() };

  function enter(client) {
    const server = net.connect(Number(port), hostname);
    door.connections++;
    for (const socket of [client, server]) {
      door.sockets.add(socket.on("error", () => {}));
      socket.on("close", () => client.destroy() && server.destroy() && door.sockets.delete(socket));
    }
    let answered = false; // by the door, with all that belongs to the request
    client.on("data", (bytes) => {
      if (/^(GET|POST|PATCH) /.test(bytes.toString("latin1", 0, 8))) {
        door.requests++;
        const answer = door.answers.shift();
        answered = answer !== undefined;
        if (answered) client.write(answer);
      }
      if (!answered) server.write(bytes);
    });
    server.on("data", (bytes) => (door.lose > 0 ? door.lose-- && client.destroy() : client.write(bytes)));
  }

  const listener = net.createServer(enter);
  door.listen = (at = 0) => new Promise((done) => listener.listen(at, "127.0.0.1", done));
  door.close = () => {
    for (const socket of door.sockets) socket.destroy();
    return new Promise((done) => listener.close(done));
  };
  await door.listen();
  door.port = listener.address().port;
  door.url = `http://127.0.0.1:${door.port}`;
  return door;
}

/** An answer as the server's own. */
export function answerOf(status, slug, headers = "") {
  const body = JSON.stringify({ type: `/problems/${slug}`, status });
  return `HTTP/1.1 ${status} X\r\n${headers}Content-Type: application/problem+json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}
