// Self-signed certificates for tests of TLS, made with openssl.
import { execFileSync } from "node:child_process";
import { join } from "node:path";

export type CertificateFiles = { cert: string; key: string };

/** Writes (or overwrites) NAME.crt and NAME.key in a folder. */
export function makeCertificate(dir: string, name: string, commonName: string): CertificateFiles {
  const files = { cert: join(dir, `${name}.crt`), key: join(dir, `${name}.key`) };
  const subject = ["-subj", `/CN=${commonName}`, "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"];
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", files.key];
  execFileSync("openssl", ["req", "-x509", ...key, "-out", files.cert, ...subject], { stdio: "ignore" });
  return files;
}
