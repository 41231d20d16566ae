// Reads of node's requests: the peer of a socket (its address, or that it is on a Unix socket) and repeated headers.
import type { Socket } from "node:net";
import { UNIX_PEER } from "../../kernel/network/unix-peer.ts";

/** A socket as far as it is read; frameworks may provide less, or nothing. */
export type SocketLike = Partial<Pick<Socket, "remoteAddress">> & { server?: { address?(): unknown } };

/**
 * Null when unknown. A TCP socket whose peer has gone has no address either, so only the name of the server's socket
 * shows that the peer is on a Unix socket: a client that disconnects early must not count as a local proxy.
 */
export function peerOf(socket: SocketLike | null | undefined): string | null {
  if (typeof socket?.remoteAddress === "string") return socket.remoteAddress;
  return typeof socket?.server?.address?.() === "string" ? UNIX_PEER : null;
}

export function joinHeader(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header.join(",") : header;
}
