// The certificate and its key, from two files. They are read again on demand: connections that are open keep the old
// certificate, new ones get the new, and files that do not fit together change nothing.
import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Server } from "node:http";
import type { Server as TlsServer } from "node:https";
import { createSecureContext } from "node:tls";
import type { Services } from "../domain/core/context.ts";

/** Throws one sentence that names the setting at fault; a key's text is never part of it. */
export function readCertificate(certFile: string, keyFile: string): { cert: string; key: string } {
  let at = "KEYRACK_TLS_CERT";
  try {
    const cert = readFileSync(certFile, "utf8");
    at = "KEYRACK_TLS_KEY";
    const key = readFileSync(keyFile, "utf8");
    at = "KEYRACK_TLS_CERT and KEYRACK_TLS_KEY";
    createSecureContext({ cert, key });
    return { cert, key };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new Error(`${at} cannot be used: ${code ?? message}`, { cause: error });
  }
}

export function renewCertificate(server: Server, certFile: string, keyFile: string, log: Services["log"]): void {
  try {
    const pair = readCertificate(certFile, keyFile);
    (server as unknown as TlsServer).setSecureContext(pair);
    const { subject, validTo } = new X509Certificate(pair.cert);
    log.info("the certificate was read again", { subject, valid_to: validTo });
  } catch (error) {
    log.error("the certificate was not read again; the old one stays", { error: (error as Error).message });
  }
}
