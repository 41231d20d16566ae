// In a file of its own because every adapter contains it.

/** The peer of a Unix socket, which has no address; also its name in a list of trusted proxies. */
export const UNIX_PEER = "unix";
