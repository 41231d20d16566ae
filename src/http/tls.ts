// The certificate and its key, from two files, reloaded on demand. Open connections keep the old certificate, new ones
// get the new one, and files that do not match change nothing.
import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Server } from "node:http";
import type { Server as TlsServer } from "node:https";
import { createSecureContext } from "node:tls";
import type { Services } from "../domain/core/context.ts";

/** Throws one sentence that names the wrong setting and never contains the key. */
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

export function reloadCertificate(server: Server, certFile: string, keyFile: string, log: Services["log"]): void {
  try {
    const pair = readCertificate(certFile, keyFile);
    (server as unknown as TlsServer).setSecureContext(pair);
    const { subject, validTo } = new X509Certificate(pair.cert);
    log.info("certificate reloaded", { subject, valid_to: validTo });
  } catch (error) {
    log.error("certificate not reloaded; the old one stays in use", { error: (error as Error).message });
  }
}
