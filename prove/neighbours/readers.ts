// Requests large lists and never reads them: unsent bytes are bounded, and such a connection is closed.
import { connect, type Socket } from "node:net";
import { once } from "node:events";
import type { Attack } from "./attack.ts";

const CLIENTS = 20;

export const silentReaders: Attack = {
  name: "clients that never read",
  async run({ url, attacker: { key }, stop }) {
    const { hostname, port, host } = new URL(url);
    const head = `GET /v1/keys?include_revoked=true&limit=200 HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${key}\r\n\r\n`;
    const sockets: Socket[] = [];
    for (let i = 0; i < CLIENTS && !stop.aborted; i++) {
      const socket = connect(Number(port), hostname);
      socket.on("error", () => {});
      socket.pause();
      socket.write(head.repeat(10));
      sockets.push(socket);
      await once(socket, "connect").catch(() => {});
    }
    for (const socket of sockets) socket.destroy();
  },
};
